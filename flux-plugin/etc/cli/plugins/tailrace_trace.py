"""The command line plugin: `flux submit|run|batch|alloc|bulksubmit --trace[=STAGE] [--trace-tag KEY=VALUE]...`.

Found by FLUX_CLI_PLUGINPATH, or in Flux's own etc/flux/cli/plugins. It is run by the Python that Flux was built with,
which knows nothing of tailrace, so it imports the standard library and Flux only. A tag is checked by the core itself,
libtailrace.so, where that lies beside this file; where it doesn't, the jobtap plugin says at submission what is wrong.
(No file here may be called tailrace.py: Flux would import it by that name.)
"""

import argparse
import ctypes
import sys
from pathlib import Path
from typing import Any, Dict, Optional, Tuple
from urllib.parse import quote

from flux.cli.plugin import CLIPlugin

# <site-packages>/tailrace/flux/etc/cli/plugins/tailrace_trace.py; elsewhere these paths don't exist.
_ETC = Path(__file__).absolute().parents[2]
_LIBRARY = _ETC.parents[1] / "lib" / "libtailrace.so"
_NAMED = ("workflow", "stage", "task")
_GIVEN = ("job", "rank")
_MESSAGE_BYTES = 512


class TracePlugin(CLIPlugin):  # type: ignore[misc]
    """Trace what jobs do to their data (tailrace).

    --trace              trace the job; its stage is the job's name
    --trace=STAGE        trace the job as a task of STAGE: jobs that do the same step share it
    --trace-tag K=V      another tag: workflow, task, or a key of your own; may be repeated
    --trace-run DIR      the run directory; default: as the instance's tailrace is configured
    --no-trace           don't trace the job where all jobs are traced

    The stage needs its "=": in `flux run --trace hostname` hostname is the command. `flux jobs -o '{id} {user.trace}'`
    shows what is traced; `tailrace report DIR` shows what came out.
    """

    def __init__(self, prog: str, prefix: Any = None, version: Any = None) -> None:
        super().__init__(prog, prefix=prefix, version=version)
        self.add_option(
            "--trace",
            nargs="?",
            const="",
            metavar="STAGE",
            dest="tailrace_stage",
            action=_StageAction,
            help="Trace the job's I/O with tailrace, as a task of STAGE (--trace=STAGE; default: the job's name)",
        )
        self.add_option(
            "--trace-tag",
            action="append",
            metavar="KEY=VALUE",
            dest="tailrace_tags",
            help="Tag for all that a traced job does (workflow, task, or a key of your own). May be repeated",
        )
        self.add_option(
            "--trace-run",
            metavar="DIR",
            dest="tailrace_run",
            help="Run directory of a traced job (default: as tailrace is configured)",
        )
        self.add_option(
            "--no-trace",
            action="store_true",
            dest="tailrace_refused",
            help="Don't trace the job, where all jobs are traced",
        )

    def preinit(self, args: Any) -> None:
        """Checks the options. Raises ValueError."""
        if args.tailrace_refused and args.tailrace_stage is not None:
            raise ValueError("--trace and --no-trace exclude each other")
        attribute = self._attribute(args)
        if args.tailrace_stage is None and (args.tailrace_tags or args.tailrace_run):
            raise ValueError("--trace-tag and --trace-run are for traced jobs: add --trace")
        tags = attribute.get("tags", {})
        fault = tag_fault({**{key: attribute[key] for key in _NAMED if key in attribute}, **tags})
        if fault:
            raise ValueError(fault)

    def modify_jobspec(self, args: Any, jobspec: Any) -> None:
        """Writes attributes.user.trace, and lets the job's shell find tailrace."""
        # Of a job of bulksubmit, Flux 0.88 hands out what differs from job to job; the options lie one level below.
        args = getattr(args, "_orig_args", args)
        if args.tailrace_refused:
            jobspec.setattr("user.trace", False)
        elif args.tailrace_stage is not None:
            given = (jobspec.attributes.get("user") or {}).get("trace")
            jobspec.setattr("user.trace", {**(given if isinstance(given, dict) else {}), **self._attribute(args)})
            jobspec.environment = _with_shell_plugin(jobspec.environment)

    def _attribute(self, args: Any) -> Dict[str, Any]:
        """attributes.user.trace as the options ask for it. Raises ValueError."""
        tags = dict(_assignment(text) for text in args.tailrace_tags or [])
        for key in _GIVEN:
            if key in tags:
                raise ValueError(f"--trace-tag {key}=...: Flux gives the tag {key!r}")
        if args.tailrace_stage and tags.get("stage", args.tailrace_stage) != args.tailrace_stage:
            raise ValueError(f"two stages: --trace={args.tailrace_stage} and --trace-tag stage={tags['stage']}")
        attribute: Dict[str, Any] = {key: tags.pop(key) for key in _NAMED if key in tags}
        if args.tailrace_stage:
            attribute["stage"] = args.tailrace_stage
        if tags:
            attribute["tags"] = tags
        if args.tailrace_run:
            attribute["run"] = str(Path(args.tailrace_run).absolute())
        return attribute


class _StageAction(argparse.Action):
    """Takes the stage from `--trace=STAGE` alone.

    argparse would also take the next word, which is the command more often than not: `flux run --trace hostname`.
    """

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: Any = None) -> None:
        words = sys.argv
        apart = any(words[at : at + 2] == [option_string, values] for at in range(len(words)))
        if values and apart and f"{option_string}={values}" not in words:
            parser.error(
                f"--trace takes its stage with a '=': write --trace={values} when {values!r} is the stage, "
                f"or --trace -- {values} when it is the command"
            )
        if values == "" and f"{option_string}=" in words:
            parser.error("--trace= has no stage: write --trace=STAGE, or --trace for the job's name")
        setattr(namespace, self.dest, values)


def _assignment(text: str) -> Tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        raise ValueError(f"--trace-tag {text!r} has no '=': write it as key=value")
    return key, value


def tag_fault(tags: Dict[str, str]) -> Optional[str]:
    """What is wrong with `tags`, by the core's own rules, or None; None also where the core isn't to be found."""
    # As tailrace.tags.encode writes them; the rules are the core's.
    text = ",".join(f"{_quoted(key, '')}={_quoted(value, '_.:/@+-')}" for key, value in tags.items())
    if not text or not _LIBRARY.is_file():
        return None
    try:
        check = ctypes.CDLL(str(_LIBRARY)).tailrace_tag_error
    except (OSError, AttributeError):
        return None
    check.restype = ctypes.c_size_t
    check.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t]
    message = ctypes.create_string_buffer(_MESSAGE_BYTES)
    return message.value.decode("utf-8", "replace") if check(text.encode(), message, _MESSAGE_BYTES) else None


def _quoted(text: str, unquoted: str) -> str:
    return quote(text, safe=unquoted, errors="surrogateescape").replace("~", "%7E")


def _with_shell_plugin(environment: Dict[str, str]) -> Dict[str, str]:
    """`environment` with the shell plugin's folder first in FLUX_SHELL_RC_PATH, where it lies beside this file."""
    folder = _ETC / "shell"
    if not (folder / "tailrace.lua").is_file():
        return environment
    others = [entry for entry in environment.get("FLUX_SHELL_RC_PATH", "").split(":") if entry and entry != str(folder)]
    return {**environment, "FLUX_SHELL_RC_PATH": ":".join([str(folder), *others])}
