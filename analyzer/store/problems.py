"""What a run lost, and what of it can't be read, in sentences: for `report`, `query`, `graph` and `run.problems`.

    losses (catalogue) + damaged blocks that a reading met  -->  sentences

Invariants: a damaged block costs that block. Its events are left out and named here, in the process that opened the
run; a worker of a cluster, whose words the user would not see, raises TraceError instead, as everything does under
`refuse()`.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tailrace.analyzer.util.formatting import count_text
from tailrace.analyzer.util.losses import Loss

LOSSES = {
    "no_journal": "not recorded: no buffer (journal directory full or not writable), or a vfork child without room",
    "not_written": "recorded, but not written to the run directory (full, removed, or no permission)",
    "torn": "cut off: the process was killed, or the file ends, within a record",
    "unnamed": "without a file: the descriptor was closed and reused during the call",
    "dropped": "not recorded: activity of a GPU that CUPTI dropped or gave no times of",
    "gave_way": "recorded in part: they mapped memory over the tracer's, which ended recording there",
    "ambiguous": "without a file: two names have one hash in the trace",
    "no_arguments": "without file and bytes: they were traced without metadata",
    "not_json": "not JSON",
    "counters": "that are counters of the other tracer's, not calls",
    "unknown": "of a kind that is not known",
    "unfinished": "of events whose begin or end is not in the trace",
    "refused": "refused: links, special files or other users' files",
    "foreign": "not files of a known tracer",
    "version": "of a newer format version",
    "damaged": "damaged",
    "unreadable": "that can't be read",
    "vanished": "that vanished while the run was read",
    "missing": "missing, which were written",
    "journals_removed": "whose journals were removed while processes ran (by systemd-logind, an epilog or a cleaner):"
    " what a killed process had not written yet is missing",
    "undescribed": "whose mounts are not described, so flows to and from other hosts may be missing"
    " (`tailrace seal` there adds them)",
    "clock_set": "whose clock was set during the run (or it slept); the dataflow goes by the clock that can't be set,"
    " and events have their times as recorded",
    "other_run": "of another run, which are not counted",
    "copied": "that are copies of others, counted once",
}
"""cause -> words; any other cause is shown by its name."""
_HARMLESS = {("unnamed", "events"), ("ambiguous", "events"), ("torn", "events")}
"""Nothing that had returned is missing: the event is there without its file, or its call had not returned."""
_NAMED = 3
"""So many different problems are named in a sentence."""


def sentence(cause: str, unit: str, losses: Iterable[Loss]) -> str:
    """A sentence on the losses of a cause and unit; with the first problems where it is not a matter of counting."""
    rows = list(losses)
    number = sum(row.count for row in rows)
    problems = list(dict.fromkeys(row.problem for row in rows))
    named = "; ".join([*problems[:_NAMED], *([f"and {len(problems) - _NAMED} more"] if len(problems) > _NAMED else [])])
    if unit == "processes":
        how = f"recorded nothing ({named})" if named else LOSSES.get(cause, cause)
        return f"{count_text(number, 'process', 'es')} {how}"
    if unit in ("files", "hosts"):
        return f"{count_text(number, unit.removesuffix('s'))} {LOSSES.get(cause, cause)}: {named}"
    return f"{number:,} {unit} {LOSSES.get(cause, cause)}"


def sentences(losses: Iterable[Loss]) -> list[str]:
    """What is missing, a sentence for each cause and unit: where it is, too."""
    of: dict[tuple[str, str], list[Loss]] = {}
    for row in losses:
        if row.count and (row.cause, row.unit) not in _HARMLESS:
            of.setdefault((row.cause, row.unit), []).append(row)
    return [_placed(sentence(*key, rows), rows) for key, rows in sorted(of.items())]


def _placed(text: str, rows: list[Loss]) -> str:
    if rows[0].unit in ("files", "hosts", "processes"):
        return text
    files = list(dict.fromkeys(row.problem if row.cause == "damaged" else row.file for row in rows))
    more = f" and {len(files) - _NAMED} more" if len(files) > _NAMED else ""
    return f"{text} ({', '.join(files[:_NAMED])}{more})"


# ---- damaged blocks ----

_met: dict[tuple[str, int], tuple[int, str, tuple[int, ...]]] = {}
"""(trace file, absolute; offset) -> (events of the block, problem, the file as it was then)."""
_refusing = False


def refuse(on: bool = True) -> None:
    """From now on, a damaged block is an error in this process, or no longer."""
    global _refusing
    _refusing = on


def refuses() -> bool:
    """Whether a damaged block is an error."""
    return _refusing


def note(path: str, offset: int, events: int, problem: str) -> None:
    """Notes a damaged block that is left out."""
    _met[path, offset] = (events, problem, _state(path))


def _state(path: str) -> tuple[int, ...]:
    try:
        status = Path(path).stat()
    except OSError:
        return ()
    return status.st_ino, status.st_size, status.st_mtime_ns


def met(directory: str) -> list[tuple[str, int, int, str]]:
    """(file in the run, offset, events, problem) of the damaged blocks of the run at this absolute path."""
    inside = f"{directory}/"
    return [
        (path.removeprefix(inside), offset, events, problem)
        for (path, offset), (events, problem, state) in sorted(_met.items())
        if path.startswith(inside) and state == _state(path)
    ]
