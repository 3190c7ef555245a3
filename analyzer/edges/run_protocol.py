"""The interface of a run for the packages from `model` on: `tailrace.analyzer.run.Run` and the runs of tests implement
it.

It is in this package since the edge table is part of it; the packages below need only events (`loader.EventSource`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from tailrace.analyzer.store.loader import EventSource
from tailrace.analyzer.store.partitions import Block
from tailrace.analyzer.store.processes import Process, SignalEnd

if TYPE_CHECKING:
    import pandas as pd

    from tailrace.analyzer.edges.edge_table import EdgeTable


class AnalyzedRun(EventSource, Protocol):
    """A run with its tables; `Run` documents their columns. A table without rows may lack columns.

    It is hashable and can be weakly referenced, by identity.
    """

    @property
    def path(self) -> Path:
        """Its directory."""

    @property
    def meta(self) -> Mapping[str, object]:
        """run.json; {} when there is none."""

    @property
    def has_regions(self) -> bool:
        """Whether the program marked a region."""

    def stack_blocks(self) -> list[Block]:
        """The blocks with a call whose call stack was recorded."""

    @property
    def processes(self) -> pd.DataFrame:
        """Traced processes."""

    @property
    def coverage(self) -> pd.DataFrame:
        """The trace against the kernel's accounts, a row a process."""

    @property
    def losses(self) -> pd.DataFrame:
        """Losses: file, cause, unit, count, problem."""

    @property
    def lossy_processes(self) -> Collection[Process]:
        """The processes that lost events."""

    @property
    def process_clocks(self) -> Mapping[Process, int]:
        """Process -> ns by which its times are ahead of those of its host's last processes."""

    @property
    def manager_processes(self) -> Collection[Process]:
        """The processes of workflow managers."""

    @property
    def own_processes(self) -> Collection[Process]:
        """Those of them in which nothing but the tasks is the user's."""

    @property
    def process_ranks(self) -> pd.DataFrame:
        """The processes of parallel programs with their ranks."""

    @property
    def declared_workflows(self) -> pd.DataFrame:
        """Declared workflows."""

    @property
    def declared_tasks(self) -> pd.DataFrame:
        """Declared tasks."""

    @property
    def declared_tries(self) -> pd.DataFrame:
        """Tries of declared tasks."""

    @property
    def command_ends(self) -> pd.DataFrame:
        """How the traced commands ended."""

    @property
    def signal_ends(self) -> Sequence[SignalEnd]:
        """The traced processes that a signal ended."""

    @property
    def declared_deps(self) -> pd.DataFrame:
        """Declared dependencies."""

    @property
    def declared_waits(self) -> pd.DataFrame:
        """What was waited for before each submission."""

    @property
    def declared_files(self) -> pd.DataFrame:
        """Declared inputs and outputs."""

    def info(self) -> Mapping[str, object]:
        """The run at a glance."""

    def edges(self) -> EdgeTable:
        """The edge table."""
