"""Run by flux-modprobe(1) when an instance starts: loads tailrace in an instance that runs in a traced job.

The shell plugin of the instance around it sets TAILRACE_FLUX (flux-plugin/nested.h). Elsewhere this does nothing.
Nothing here may keep an instance from starting: what can't be done is said on stderr.
"""

import json
import os
import sys
from pathlib import Path

from flux.modprobe import task


def _told():
    # Not by the task's needs_env: a key that an older version doesn't know would keep the instance from starting.
    try:
        told = json.loads(os.environ.get("TAILRACE_FLUX") or "{}")
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}


def _warn(error):
    print(f"tailrace: the jobs of this instance are not traced: {error}", file=sys.stderr)


@task("tailrace-jobtap", ranks="0", needs=["job-manager"], after=["job-manager"])
def load_jobtap(context):
    """The jobtap plugin with the outer job's run and tags, unless the instance's own configuration has loaded it."""
    told = _told()
    if not told.get("jobtap"):
        return
    try:
        loaded = context.rpc("job-manager.jobtap", {"query_only": True}).get()["plugins"]
        if Path(told["jobtap"]).name not in loaded:
            request = {"load": told["jobtap"], "conf": told.get("conf", {})}
            context.rpc("job-manager.jobtap", request).get()
    except (OSError, KeyError, TypeError) as error:
        _warn(error)


@task("tailrace-shell", ranks="all", before=["job-exec"])
def find_shell_plugin(context):
    """The shell plugin's folder in the search path of this broker's shells, unless it is there."""
    folder = _told().get("shell")
    if not isinstance(folder, str) or not folder:
        return
    try:
        from flux.conf_builtin import conf_builtin_get

        path = context.attr_get("conf.shell_pluginpath") or conf_builtin_get("shell_pluginpath") or ""
        known = [Path(one).resolve() for one in path.split(":") if one]
        if Path(folder).resolve() not in known:
            context.handle.attr_set("conf.shell_pluginpath", f"{path}:{folder}" if path else folder)
    except OSError as error:
        _warn(error)
