"""Run by flux-modprobe(1) when an instance starts: loads tailrace in an instance inside a traced job.

The shell plugin of the enclosing instance sets TAILRACE_FLUX (flux-plugin/nested.h). Without it this does nothing.
Invariant: no failure here keeps an instance from starting; it is a line on stderr.
"""

import json
import os
import sys
from pathlib import Path

from flux.modprobe import task


def _inner_settings():
    # Not the task's needs_env: an older version rejects unknown keys, and the instance would not start.
    try:
        settings = json.loads(os.environ.get("TAILRACE_FLUX") or "{}")
    except ValueError:
        return {}
    return settings if isinstance(settings, dict) else {}


def _conf(context, settings):
    """The plugin's configuration. An instance that a script started is no job of the enclosing one: it needs a name."""
    conf = dict(settings.get("conf", {}))
    own_job = not settings.get("script") and context.attr_get("jobid-path", "/") == settings.get("flux-path")
    if not own_job and isinstance(settings.get("job"), str):
        conf["within"] = "{}/start-{}".format(settings["job"], context.attr_get("broker.pid"))
    return conf


def _warn(error):
    print(f"tailrace: the jobs of this instance are not traced: {error}", file=sys.stderr)


@task("tailrace-jobtap", ranks="0", needs=["job-manager"], after=["job-manager"])
def load_jobtap(context):
    """Loads the jobtap plugin with the outer job's run and tags, unless the instance's configuration loaded it."""
    settings = _inner_settings()
    if not settings.get("jobtap"):
        return
    try:
        loaded = context.rpc("job-manager.jobtap", {"query_only": True}).get()["plugins"]
        if Path(settings["jobtap"]).name not in loaded:
            request = {"load": settings["jobtap"], "conf": _conf(context, settings)}
            context.rpc("job-manager.jobtap", request).get()
    except (OSError, KeyError, TypeError) as error:
        _warn(error)


@task("tailrace-shell", ranks="all", before=["job-exec"])
def find_shell_plugin(context):
    """Adds the shell plugin's folder to the search path of this broker's shells, unless present."""
    folder = _inner_settings().get("shell")
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
