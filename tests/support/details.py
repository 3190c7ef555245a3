"""One recording, sealed to each detail: what is read from it must not depend on that.

Times, pids and identities are then the same, so tables are compared as they are, without normalising any name. A
workflow is recorded with a sealer that is stopped: its processes hand their segments over and leave their journals to
it, and it takes none. `kept` journals are sealed as often as one likes.
"""

import os
import shutil
import signal
import struct
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from support.counted import Node
from tailrace import _native
from tailrace.analyzer.edges.edge_table import KINDS, EdgeTable
from tailrace.analyzer.util import intervals
from tailrace.integrations import environment

FULL, TOTALS, AUTO = 0, 1, 2
DETAIL_AT = 96
"""Where a journal's header has the detail that it is sealed to, 8 bytes before auto's budget
(core/src/format/journal.h)."""
BOARD = "sealer.board"
HEARTBEAT_AT = 8
"""Where the board has the heartbeat, and behind it that there is room (core/src/format/sealer_board.h)."""
BEAT_S = 0.05
SETTINGS = {
    "TAILRACE_BLOCK_AGE": "100000",
    # The counter would be read again at each sealing.
    "TAILRACE_CLOCK": "monotonic",
}


def sealed(run: Path, journals: Path, kept: Path, detail: int, budget: int = 0) -> Path:
    """The run of `kept` journals sealed to this detail, in a directory of its own."""
    shutil.copytree(kept, journals, dirs_exist_ok=True)
    for path in journals.rglob("*.tj"):
        with path.open("r+b") as file:
            file.seek(DETAIL_AT)
            file.write(struct.pack("<IxxxxQ", detail, budget))
    for made in ("trace", "manifest"):
        shutil.rmtree(run / made, ignore_errors=True)
    (run / "trace").mkdir()
    account = _native.seal_journals(str(run), str(journals))
    assert account["sealed_journals"] >= 1 and not account["failed"]
    made = run.with_name(f"sealed-{detail}")
    shutil.copytree(run, made)
    return made


def trace_bytes(run: Path) -> int:
    return sum(path.stat().st_size for path in (run / "trace").iterdir())


def record(command: Sequence[object], run: Path, journals: Path, kept: Path, tags: str = "") -> None:
    """Runs a command whose calls all stay in journals, `kept` in a directory of that name.

    Nothing of the trace can be written meanwhile: a file is in the place of the run's trace/.
    """
    node = Node(Path(), run, journals)
    node.start_sealer()
    os.kill(node.sealer, signal.SIGSTOP)
    (run / "trace").rmdir()
    (run / "trace").touch()
    settings = {**SETTINGS, "TAILRACE_JOURNAL_DIR": str(journals)}
    variables = environment.task_environment(run, tags, {**os.environ, **settings})
    (board,) = journals.rglob(BOARD)
    try:
        with beating(board):
            done = subprocess.run(
                [str(word) for word in command],
                env={**variables, **settings},
                capture_output=True,
                text=True,
                timeout=900,
                check=False,
            )
    finally:
        node.end_sealer(signal.SIGKILL)
    assert done.returncode == 0, done.stderr
    (run / "trace").unlink()
    board.unlink()
    shutil.copytree(journals, kept)


@contextmanager
def beating(board: Path) -> Iterator[None]:
    """Writes a stopped sealer's heartbeat for it, and that the place has room."""
    over = threading.Event()

    def beat() -> None:
        with board.open("r+b", buffering=0) as file:
            while True:
                os.pwrite(file.fileno(), struct.pack("<QI", time.monotonic_ns(), 1), HEARTBEAT_AT)
                if over.wait(BEAT_S):
                    return

    thread = threading.Thread(target=beat)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def actors(table: EdgeTable) -> "np.ndarray[Any, np.dtype[Any]]":
    return table.who.astype(str).agg(" ".join, axis=1).to_numpy()


def plain(table: EdgeTable, name: str) -> pd.DataFrame:
    """A table with the texts of its codes, sorted: the order of lines, and so that of codes, is another in totals."""
    files = np.append(table.files["file"].to_numpy(), "")
    frame = getattr(table, name)
    codes: Mapping[str, Any] = {"who": actors(table), "file": files}
    if name not in ("who", "files"):
        frame = frame.assign(**{key: codes[key][frame[key]] for key in codes if key in frame})
    return frame.sort_values(list(frame), ignore_index=True)


def covered(table: EdgeTable, rows: intervals.Intervals, name: str) -> dict[tuple[object, ...], Any]:
    """Of each burst its extents or the time in its calls; `busy`: of each actor and kind the time in calls."""
    who = actors(table)
    if name == "busy":
        keys: list[tuple[object, ...]] = [(of, kind) for of in who for kind in range(len(KINDS))]
    else:
        bursts = table.bursts
        files = table.files["file"].to_numpy()[bursts["file"]]
        keys = list(zip(who[bursts["who"]], files, bursts["dir"], bursts["first_ns"], strict=True))
    out: dict[tuple[object, ...], Any] = {}
    for group, start, end, weight in zip(*(column.tolist() for column in rows), strict=True):
        if name == "extents":
            out.setdefault(keys[group], []).append((start, end))
        else:
            out[keys[group]] = out.get(keys[group], 0) + weight
    return out
