"""trace(): a Parsl configuration whose tasks are traced.

It changes how workers start (executors.py) and adds a memoizer to the DataFlowKernel (memoizer.py). Wrong tags raise;
any other fault is one warning, and the workflow runs untraced.
"""

import copy
import logging
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import parsl
from parsl.config import Config
from parsl.dataflow.taskrecord import TaskRecord
from tailrace import context
from tailrace import tags as tag_strings
from tailrace.errors import TagError, TailraceError
from tailrace.integrations import environment, indexing
from tailrace.integrations import settings as _settings
from tailrace.integrations.workflow import Workflow, opened_run, surrounding_task, unused_name
from tailrace.managers import ADAPTERS

_log = logging.getLogger("tailrace.parsl")

_PER_TASK_TAGS = ("workflow", "stage", "task", "try")
_POOLS_END_WAIT_S = 5.0
"""How long the end of a workflow waits for the pools of this node to seal their workers' journals."""
_KERNELS = ("ipykernel_launcher", "colab_kernel_launcher")
"""Programs that run notebooks."""


StageNames = Callable[[TaskRecord], str | None] | Mapping[str, str]


def trace(
    config: Config,
    run_dir: str | Path | None = None,
    workflow: str | None = None,
    tags: Mapping[str, str | int] | None = None,
    stage: StageNames | None = None,
    detail: str | None = None,
    store: str | Path | None = None,
    settings: Mapping[str, object] | None = None,
    arguments: bool = True,
) -> Config:
    """A configuration like `config` whose tasks are traced: `parsl.load(trace(config))`.

    run_dir: the run directory; the workers must reach it. Default: that of the surrounding `tailrace run`, or of the
        workflow that this process traced before, as in a notebook, else a new one under ./tailrace-runs.
    workflow: the workflow's name. Default: the program's or notebook's. "-2" is appended when the run has a workflow of
        that name.
    tags: further tags of every task.
    stage: a task's stage: a mapping from app names, or a callable that takes Parsl's task record. Default, also when
        it returns None: what `@tailrace.parsl.stage` gave the app, else the app's name.
    detail: full, totals or auto[:BYTES], as TAILRACE_DETAIL, for this process and all workers.
    store: a store of runs (docs/store.md), to which the run is added once this program has ended. Default:
        TAILRACE_STORE. In a surrounding `tailrace run` that does it, by TAILRACE_STORE.
    settings: further ones, as in `{"exclude": ["*.log"], "layers": "none"}` (docs/tracing.md, "Settings"). They win
        over variables and over the file that TAILRACE_CONFIG names.
    arguments: whether the arguments of each task are declared, as bounded text, without what TAILRACE_REDACT hides in
        command lines.

    Changes the executors of `config` in place. Raises TagError when a tag breaks the rules, UsageError when there is no
    such setting or value. When tracing is impossible (no core, no usable directory), logs a warning and returns
    `config` itself.
    """
    base_tags = _checked_tags(tags, workflow)
    if detail is not None:
        # Where the settings that the user chose are looked up, for this process and for the workers.
        _settings.choose({"detail": detail}, "trace()")
    _settings.choose(settings or {}, "trace()")
    try:
        return _trace(config, run_dir, workflow or _program_name(), base_tags, stage, store, arguments)
    except (TailraceError, OSError) as error:
        _log.warning("tailrace: this workflow is not traced: %s", error)
    except Exception as error:
        _log.warning(
            "tailrace: this workflow is not traced: %s: %s (Parsl is %s; this tailrace was tested with %s to %s)",
            type(error).__name__,
            error,
            parsl.__version__,
            *ADAPTERS["parsl"].tested,
        )
    return config


def _trace(
    config: Config,
    run_dir: str | Path | None,
    workflow: str,
    base_tags: str,
    stage: StageNames | None,
    store: str | Path | None,
    arguments: bool,
) -> Config:
    # Here, since an older or newer Parsl may not have what these import; before anything is changed.
    from parsl.dataflow.memoization import BasicMemoizer
    from tailrace.parsl import executors
    from tailrace.parsl.arguments import mode_here
    from tailrace.parsl.memoizer import TracingMemoizer

    library = str(environment.library_path())
    directory = _run_directory(run_dir, base_tags)
    followed = Workflow("parsl", directory, unused_name(directory, workflow), base_tags, surrounding_task())
    _add_to_store(directory, store)
    _attach(directory)
    settings = followed.variables()
    settings.pop("LD_PRELOAD", None)
    for executor in config.executors:
        fault = executors.why_not_tagged(executor)
        if fault is None:
            executors.prepare_workers(executor, settings, library)
        else:
            _log.warning("tailrace: executor %r is not traced: %s", executor.label, fault)
    traced = copy.copy(config)
    memoizer = TracingMemoizer(
        config.memoizer if config.memoizer is not None else BasicMemoizer(),
        followed,
        config=_described(config),
        stage_of=_stage_namer(stage),
        # What the user's callable does with futures in the place of arguments is unknown.
        early_stage_of=None if callable(stage) else _stage_namer(stage),
        redaction=mode_here() if arguments else None,
        on_end=partial(followed.close, _POOLS_END_WAIT_S),
    )
    traced.memoizer, traced.retry_handler = memoizer, memoizer.retry_handler(config.retry_handler)
    return traced


def _checked_tags(tags: Mapping[str, str | int] | None, workflow: str | None) -> str:
    taken = [key for key in _PER_TASK_TAGS if key in (tags or {})]
    if taken:
        raise TagError(f"tag {taken[0]!r} is set for each task: name workflows with workflow=, stages with stage=")
    if workflow is not None:
        tag_strings.encode({"workflow": workflow})
    return tag_strings.encode(tags or {})


def _stage_namer(stage: StageNames | None) -> Callable[[TaskRecord], str | None]:
    if stage is None:
        return lambda task: None
    if callable(stage):
        return stage
    return lambda task: stage.get(task["func_name"])


def program_name(argv: Sequence[str], environ: Mapping[str, str], main: Mapping[str, object], cwd: str) -> str:
    """What a workflow is called by default: the program or notebook; where there is none, the working directory.

    environ: Jupyter's server names the notebook in it; main: the globals of `__main__`, in which VS Code does.
    """
    script = Path(argv[0]) if argv else Path()
    name = script.parent.name if script.stem == "__main__" else script.stem
    if name in _KERNELS:
        name = Path(str(main.get("__vsc_ipynb_file__") or environ.get("JPY_SESSION_NAME") or "")).stem
    return name if name not in ("", "-c", "-m") else Path(cwd).name or "parsl"


def _program_name() -> str:
    try:
        cwd = str(Path.cwd())
    except FileNotFoundError:
        cwd = ""  # removed
    return program_name(sys.argv, os.environ, vars(sys.modules["__main__"]), cwd)


def _run_directory(wanted: str | Path | None, tags: str) -> Path:
    """The run that this process is traced into, else the wanted one, created or opened."""
    traced_into = context.run_directory() if context.active() else None
    if traced_into is None:
        return opened_run(wanted, _program_name(), tags)
    if wanted is not None and Path(wanted).expanduser().resolve() != Path(traced_into).resolve():
        _log.warning(
            "tailrace: this process is already traced into %s: the workflow is recorded there, not in %s; another run"
            " needs another process",
            traced_into,
            wanted,
        )
    return Path(traced_into)


_indexed: set[Path] = set()
"""Runs that are added to a store after this process."""


def _add_to_store(directory: Path, store: str | Path | None) -> None:
    """Has the run added to a store once this process has ended; before it is traced."""
    if not indexing.chosen(store) or directory in _indexed:
        return
    if not context.active():
        indexing.index_after(directory, indexing.chosen(store))
        _indexed.add(directory)
    elif store is not None and not os.environ.get(indexing.STORE):
        _log.warning(
            "tailrace: the run is not added to %s by this program, which is traced already: set %s where that began",
            store,
            indexing.STORE,
        )


def _attach(directory: Path) -> None:
    """Starts tracing in this process, which runs the tasks of thread pools and the bodies of join apps."""
    try:
        environment.attach(directory)
    except TailraceError as error:
        _log.warning("tailrace: tasks inside this process are not traced: %s", error)


def _described(config: Config) -> dict[str, Any]:
    return {
        "executors": [{"label": executor.label, "type": type(executor).__name__} for executor in config.executors],
        "retries": config.retries,
        "host_python": sys.executable,
    }
