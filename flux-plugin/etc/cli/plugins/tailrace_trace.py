"""The command line plugin: `flux submit|run|batch|alloc|bulksubmit --trace[=STAGE] [--trace-tag KEY=VALUE]...`.

Found by FLUX_CLI_PLUGINPATH, or in Flux's etc/flux/cli/plugins. The Python that Flux was built with runs it, and that
may lack tailrace, so it imports the standard library and Flux only. Tags are checked by the core, libtailrace.so, if
that is installed beside this file; otherwise by the jobtap plugin at submission. (No file here may be named
tailrace.py: Flux would import it by that name.)
"""

import argparse
import ctypes
import os
import signal
import sys
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple
from urllib.parse import quote

import flux
from flux.cli.plugin import CLIPlugin
from flux.conf_builtin import conf_builtin_get

# <site-packages>/tailrace/flux/etc/cli/plugins/tailrace_trace.py; elsewhere these paths don't exist.
_ETC = Path(__file__).absolute().parents[2]
_LIBRARY = _ETC.parents[1] / "lib" / "libtailrace.so"
_NAMED = ("workflow", "stage", "task")
_SET_BY_FLUX = ("job", "rank")
_MESSAGE_BYTES = 512
_AT_THE_END = ("finish", "release", "free", "clean")


class TracePlugin(CLIPlugin):  # type: ignore[misc]
    """Trace what jobs do to their data (tailrace).

    --trace              trace the job; its stage is the job's name
    --trace=STAGE        trace the job as a task of STAGE: jobs of the same step share it
    --trace-tag K=V      add a tag: workflow, task, or any other key; may be repeated
    --trace-run DIR      the run directory; default: as configured for the instance
    --no-trace           do not trace the job where all jobs are traced

    The stage needs "=": in `flux run --trace hostname`, hostname is the command. With bulksubmit and --cc, Flux's
    templates ({}, {cc}, {seq}) are filled in. `flux jobs -o '{id} {user.trace}'` lists the traced jobs; `tailrace
    report DIR` reports on a run.
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
            help="Add a tag to all events of a traced job (workflow, task, or any other key). May be repeated",
        )
        self.add_option(
            "--trace-run",
            metavar="DIR",
            dest="tailrace_run",
            help="Run directory of a traced job (default: as configured for the instance)",
        )
        self.add_option(
            "--no-trace",
            action="store_true",
            dest="tailrace_refused",
            help="Do not trace the job where all jobs are traced",
        )

        _register_templates(
            {"tailrace_stage": "--trace=", "tailrace_tags": "--trace-tag=", "tailrace_run": "--trace-run="}
        )

    def preinit(self, args: Any) -> None:
        """Checks the options of a job. Raises ValueError."""
        if args.tailrace_refused and args.tailrace_stage is not None:
            raise ValueError("--trace and --no-trace exclude each other")
        attribute = self._attribute(args)
        if args.tailrace_stage is None and (args.tailrace_tags or args.tailrace_run):
            raise ValueError("--trace-tag and --trace-run are for traced jobs only: add --trace")
        tags = attribute.get("tags", {})
        fault = tag_fault({**{key: attribute[key] for key in _NAMED if key in attribute}, **tags})
        if fault:
            raise ValueError(fault)
        if args.tailrace_stage is not None and not can_trace():
            raise ValueError(
                "--trace would trace nothing: this tailrace was installed without its Flux plugins, which wheels lack: "
                "where flux-core's and jansson's headers are, run pip install --force-reinstall --no-deps --no-binary "
                "tailrace tailrace, or submit without --trace"
            )

    def modify_jobspec(self, args: Any, jobspec: Any) -> None:
        """Sets attributes.user.trace, the path by which the job's shell finds its plugin, and who submits the job."""
        args = _Options(args)
        if args.tailrace_refused:
            jobspec.setattr("user.trace", False)
        elif args.tailrace_stage is not None:
            given = (jobspec.attributes.get("user") or {}).get("trace")
            jobspec.setattr("user.trace", {**(given if isinstance(given, dict) else {}), **self._attribute(args)})
            jobspec.environment = _with_shell_plugin(jobspec.environment)
            jobspec.setattr("user.tailrace.submitter", self._submitter(args))

    def _submitter(self, args: Any) -> Dict[str, Any]:
        """This process, and whether who waits for it has waited for the job.

        Not so for a command in the background (`flux run ... &`), which a shell reaps while it waits for another one.
        By POSIX, SIGINT is ignored there.
        """
        waits = self.prog == "run" or (self.prog == "alloc" and not getattr(args, "bg", None))
        waits = waits or getattr(args, "wait", None) in _AT_THE_END or bool(getattr(args, "watch", None))
        waits = waits and signal.getsignal(signal.SIGINT) is not signal.SIG_IGN
        return {"host": os.uname().nodename, "pid": os.getpid(), "waits": waits}

    def _attribute(self, args: Any) -> Dict[str, Any]:
        """attributes.user.trace for these options. Raises ValueError."""
        tags = dict(_assignment(text) for text in args.tailrace_tags or [])
        for key in _SET_BY_FLUX:
            if key in tags:
                raise ValueError(f"--trace-tag {key}=...: Flux sets the tag {key!r}; remove the option")
        if args.tailrace_stage and tags.get("stage", args.tailrace_stage) != args.tailrace_stage:
            raise ValueError(
                f"two stages: --trace={args.tailrace_stage} and --trace-tag stage={tags['stage']}; give one"
            )
        attribute: Dict[str, Any] = {key: tags.pop(key) for key in _NAMED if key in tags}
        if args.tailrace_stage:
            attribute["stage"] = args.tailrace_stage
        if tags:
            attribute["tags"] = tags
        if args.tailrace_run:
            attribute["run"] = str(Path(args.tailrace_run).absolute())
        return attribute


class _Options:
    """The options of one job. For bulksubmit and --cc, Flux 0.88 passes what differs between jobs; the other options
    are one level below, or two."""

    def __init__(self, args: Any) -> None:
        self._levels = [args]
        while getattr(self._levels[-1], "_orig_args", None) is not None:
            self._levels.append(self._levels[-1]._orig_args)

    def __getattr__(self, name: str) -> Any:
        for level in self._levels:
            if hasattr(level, name):
                return getattr(level, name)
        raise AttributeError(name)


def _register_templates(options: Dict[str, str]) -> None:
    """Makes Flux fill its templates in these options (destination -> option), as in --job-name: {} and {cc}."""
    try:
        from flux.cli.base import Xcmd

        Xcmd.mutable_args.update(options)
    except (ImportError, AttributeError):
        return  # another version of Flux: the templates stay as they are


class _StageAction(argparse.Action):
    """Accepts a stage in the form `--trace=STAGE` only.

    argparse would also take the next word, which is usually the command: `flux run --trace hostname`.
    """

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: Any = None) -> None:
        words = sys.argv
        apart = any(words[at : at + 2] == [option_string, values] for at in range(len(words)))
        if values and apart and f"{option_string}={values}" not in words:
            parser.error(
                f"--trace needs '=' before its stage: write --trace={values} if {values!r} is the stage, "
                f"or --trace -- {values} if it is the command"
            )
        if values == "" and f"{option_string}=" in words:
            parser.error("--trace= has no stage: write --trace=STAGE, or --trace for the job's name")
        setattr(namespace, self.dest, values)


def can_trace() -> bool:
    """Whether a shell would find the shell plugin: this installation's, one of FLUX_SHELL_RC_PATH, or the instance's
    own; also where no instance can be asked."""
    folders = [_ETC.parent / "lib" / "shell"]
    rc_path = os.environ.get("FLUX_SHELL_RC_PATH", "").split(":")
    folders += [Path(entry, "..", "..", "lib", "shell") for entry in rc_path if entry]
    if _has_plugin(folders) or _has_plugin(_paths(conf_builtin_get("shell_pluginpath"))):
        return True
    try:
        instance = flux.Flux()
    except OSError:
        return True
    try:
        return _has_plugin(_paths(instance.attr_get("conf.shell_pluginpath")))
    except OSError:
        return False


def _paths(text: Optional[str]) -> List[Path]:
    return [Path(entry) for entry in (text or "").split(":") if entry]


def _has_plugin(folders: List[Path]) -> bool:
    return any((folder / "tailrace-shell.so").is_file() for folder in folders)


def _assignment(text: str) -> Tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        raise ValueError(f"--trace-tag {text!r} has no '=': write it as key=value")
    return key, value


def tag_fault(tags: Dict[str, str]) -> Optional[str]:
    """What is wrong with `tags` by the core's rules; None when nothing is, or when the core is not found."""
    # The form of tailrace.tags.encode.
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
    """`environment` with the shell plugin's folder first in FLUX_SHELL_RC_PATH, if it is installed beside this file."""
    folder = _ETC / "shell"
    if not (folder / "tailrace.lua").is_file():
        return environment
    others = [entry for entry in environment.get("FLUX_SHELL_RC_PATH", "").split(":") if entry and entry != str(folder)]
    return {**environment, "FLUX_SHELL_RC_PATH": ":".join([str(folder), *others])}
