"""How processes ended that did not end by themselves: by a signal that somebody saw, or in silence.

    processes (signal, exit, ppid) + forks and waits --Family--> End of each process that was cut short

The one who waits for a process tells of its end by a signal. Where a signal ends the parent first or at the same time
(`timeout -s KILL`, the kill of a process group), nobody is left who waits, and the trace of the child just stops.

Invariants: a process with an exit of its own was not cut short. One that does anything after its parent's end goes on
(a daemon). Whether one that does nothing any more is dead is not known: it fell silent. SIGPIPE cuts nothing short.
"""

from __future__ import annotations

from functools import cached_property
from signal import SIGPIPE
from typing import NamedTuple

import pandas as pd

from tailrace.analyzer.insights.inputs import Inputs
from tailrace.analyzer.model import own_time
from tailrace.analyzer.store.processes import keys
from tailrace.base.exit_codes import signal_text


class End(NamedTuple):
    """words: how a process ended, as "was killed by signal 9 (SIGKILL)"; seen: somebody waited for it."""

    words: str
    seen: bool


def ends(inputs: Inputs) -> dict[int, End]:
    """Process (number in `Inputs.lives`) -> how it ended, of those that were cut short."""
    return {} if "signal" not in inputs.m.processes else _Family(inputs).ends()


class _Family:
    """The processes of a run and their parents."""

    def __init__(self, inputs: Inputs) -> None:
        self.inputs, self.lives, table = inputs, inputs.lives, inputs.m.processes
        names = keys(inputs.m.who)
        self.key = [names[actors[0]] for actors in self.lives.actors]
        rows = table[table["signal"].notna() & (table["signal"] != SIGPIPE)]
        found = dict(zip(keys(rows), rows["signal"].astype(int).tolist(), strict=True))
        self.signals = {at: found[key] for at, key in enumerate(self.key) if key in found}

    def ends(self) -> dict[int, End]:
        """As `ends`."""
        out = {process: End(f"was killed by {signal_text(number)}", True) for process, number in self.signals.items()}
        for process in self._without_end if self.signals else ():
            above = self._killed_above(process)
            if above >= 0 and self.lives.over[process] <= self._over.get(above, -1):
                program = self.inputs.m.program(self.lives.last(above))
                who = f"{program or 'process'} above it was killed by {signal_text(self.signals[above])}"
                out[process] = End(f"fell silent when {who},", False)
        return out

    @cached_property
    def _without_end(self) -> set[int]:
        table = self.inputs.m.processes
        if not {"exit", "ppid"} <= set(table):
            return set()
        silent = set(keys(table[table["exit"].isna() & table["signal"].isna() & table["ppid"].notna()]))
        return {process for process, key in enumerate(self.key) if key in silent}

    @cached_property
    def _parent_pid(self) -> dict[tuple[str, int, str], int]:
        known = self.inputs.m.processes[self.inputs.m.processes["ppid"].notna()]
        return dict(zip(keys(known), known["ppid"].astype(int).tolist(), strict=True))

    @cached_property
    def _with_pid(self) -> dict[tuple[str, int], list[int]]:
        found: dict[tuple[str, int], list[int]] = {}
        for process, (host, pid, _) in enumerate(self.key):
            found.setdefault((host, pid), []).append(process)
        return found

    @cached_property
    def _over(self) -> dict[int, int]:
        """When the end of a killed process was seen, where it was."""
        found: dict[int, int] = {}
        lives = own_time.lives(self.inputs.m)
        of = self.lives.process[lives.group]
        for process, end in zip(of.tolist(), lives.end.tolist(), strict=True):
            found[process] = max(found.get(process, -1), end)
        table = self.inputs.tables.get("command_ends", pd.DataFrame(columns=["host", "pid", "end_ns"]))
        for host, pid, end in table[["host", "pid", "end_ns"]].itertuples(index=False):
            for process in self._with_pid.get((str(host), int(pid)), ())[-1:]:
                found[process] = max(found.get(process, -1), int(end))
        return found

    def _killed_above(self, process: int) -> int:
        """The next process above that has an end, if a signal ended it; else -1."""
        above = self._parent(process)
        while above in self._without_end:
            above = self._parent(above)
        return above if above in self.signals else -1

    def _parent(self, process: int) -> int:
        """The process that had the parent's pid when it began; -1: not known. It began before its child."""
        begun, pid = self.lives.begun, self._parent_pid.get(self.key[process], -1)
        fits = [p for p in self._with_pid.get((self.key[process][0], pid), ()) if begun[p] < begun[process]]
        return max(fits, key=lambda p: int(begun[p]), default=-1)
