"""tailrace traces what a scientific workflow does to its data, and reports it.

    import tailrace

    run = tailrace.open("DIR")            # a finished or running trace; a notebook shows its stages
    run.findings()                        # what costs most, and what to do about it
    run.query("stage", "sum:size", where="size<4KiB")  # as `tailrace query`, a pandas frame
    run.events(stage="align")             # Dask DataFrame; reads only that stage's blocks
    run.dataflow(level="stage")           # networkx.MultiDiGraph, which draws itself
    run.plot.bandwidth()                  # a Matplotlib figure
    run.report("report.html")             # without a path: in the notebook's cell
    store = tailrace.open_store("STORE")  # many runs: docs/store.md

    with tailrace.region("solve"): ...    # what the program does, as events: docs/regions.md

The names are loaded on first use: a traced Parsl worker imports `tailrace.context` without loading Dask.
`__version__` is the one place of the version: pyproject.toml and CMake read it here.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tailrace.errors import TailraceError

if TYPE_CHECKING:
    from tailrace.analyzer.run import Run, open
    from tailrace.analyzer.runstore.store import Store, open_store
    from tailrace.regions import counter, instant, region, steps

__version__ = "0.1.0"
__all__ = [
    "Run",
    "Store",
    "TailraceError",
    "__version__",
    "counter",
    "instant",
    "open",
    "open_store",
    "region",
    "steps",
]

_LAZY = {
    "open": "tailrace.analyzer.run",
    "Run": "tailrace.analyzer.run",
    "open_store": "tailrace.analyzer.runstore.store",
    "Store": "tailrace.analyzer.runstore.store",
    **dict.fromkeys(("counter", "instant", "region", "steps"), "tailrace.regions"),
}


def __dir__() -> list[str]:
    # What help() shows.
    return sorted({*globals(), *_LAZY})


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'tailrace' has no attribute {name!r}")
