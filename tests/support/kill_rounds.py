"""Rounds in which a program or its sealer is killed at a random point, and what the trace has of the program's calls.

A round is a run of `counted` (../programs/counted.c, counted.py), whose memory of what returned outlives it. Afterwards
the run gets the room that it lacked, is sealed once more, and every read that had returned has to be in the trace once
or in a count of losses. tests/bench/kills.py does many of them, tests/integration/test_sealer.py a few.
"""

import json
import os
import random
import shutil
import signal
import subprocess
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support import counted
from support.counted import SECOND_BASE, Node
from tailrace import _native

VICTIMS = ("program", "program in exec", "program that forks", "sealer", "both")
WAYS = {
    "SIGKILL": signal.SIGKILL,
    "SIGTERM": signal.SIGTERM,
    "SIGSEGV": signal.SIGSEGV,
    "abort": signal.SIGUSR2,
    "_exit": signal.SIGUSR1,
}
"""Words of the table -> the signal that does it (counted.c, counted.Node)."""
ROOMY = "room"
CIRCUMSTANCES = (ROOMY, "journals fill", "/dev/shm fills", "disk fills", "both fill")
MODES = ("wait", "execs", "forks")

LOSES_CALLS = ("no_journal", "not_written")
"""The causes for which an event is not in the trace; the others are about events that are in it, or did not return."""
OTHER_CALLS = 64
"""Of a process image, at most, beside pauses: its start and end, opening, mapping and closing files, threads, an execve
or forks."""
JOURNALS_BYTES = (64 << 10, 1400 << 10)
"""A place of journals that fills has a first segment's room, and that of at most five full ones."""
DISK_BYTES = (8 << 10, 400 << 10)
PAUSE_S = 0.05
ENOUGH_S = 120
STALE_S = 1.2
"""Longer than processes believe in a sealer whose heart stopped (kStaleNs of core/src/format/sealer_board.h)."""


@dataclass(frozen=True)
class Round:
    """What is done: to whom, how, where."""

    victim: str
    way: str
    circumstance: str

    @classmethod
    def choose(cls, chance: random.Random, circumstances: tuple[str, ...]) -> "Round":
        return cls(chance.choice(VICTIMS), chance.choice(list(WAYS)), chance.choice(circumstances))


@dataclass
class Outcome:
    """The calls that had returned, those of them that are in the trace, and the losses by cause. `faults` is what must
    not be."""

    calls: int = 0
    recorded: int = 0
    lost: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)


@dataclass
class Places:
    """Where rounds are run: a directory on a disk, in which circumstances are mounts of this process's name space."""

    program: Path
    directory: Path

    def run(self, what: Round, chance: random.Random, name: str) -> Outcome:
        """One round; where there is a fault in it, its files are kept under this name."""
        shm = Path("/dev/shm")
        disk, log = self.directory / "disk", self.directory / "log"
        filling = self.directory / "journals"
        for path in (disk, log, filling):
            path.mkdir()
        journals = {"journals fill": filling, "both fill": filling, "/dev/shm fills": shm}.get(what.circumstance)
        small: dict[Path, int] = {}
        if journals is not None:
            small[journals] = chance.randrange(*JOURNALS_BYTES)
        if what.circumstance in ("disk fills", "both fill"):
            small[disk] = chance.randrange(*DISK_BYTES)
        node = Node(self.program, disk / "run", journals or shm / self.directory.name)
        with Mounts(small) as mounts:
            outcome = _run(what, node, log / "log", mounts, chance)
            if outcome.faults:
                kept = self.directory / name
                shutil.copytree(disk, kept / "disk", dirs_exist_ok=True)
                if (place := _place(node, node.journals)).exists():
                    shutil.copytree(place, kept / "journals")
                shutil.copytree(log, kept / "log", dirs_exist_ok=True)
        for path in (disk, log, filling):
            shutil.rmtree(path)
        if journals is None:
            shutil.rmtree(node.journals)
        return outcome


class Mounts:
    """Small file systems in memory over directories, in this process's own name space of mounts."""

    def __init__(self, sizes: dict[Path, int]) -> None:
        self._sizes = sizes

    def __enter__(self) -> "Mounts":
        for path, size in self._sizes.items():
            _mount("-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(path))
        return self

    def __exit__(self, *_: object) -> None:
        for path in self._sizes:
            subprocess.run(["umount", "--lazy", str(path)], check=True)

    def make_room(self) -> None:
        for path in self._sizes:
            _mount("-o", "remount,size=64m", str(path))


def _mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True)


def _run(what: Round, node: Node, log: Path, mounts: Mounts, chance: random.Random) -> Outcome:
    faults = []
    modes = {"program": "wait", "program in exec": "execs", "program that forks": "forks"}
    mode = modes.get(what.victim) or chance.choice(MODES)
    node.start_sealer()
    stop = 0 if mode == "wait" else chance.choice([300, 3000, 20_000])
    process = node.start(log, chance.choice([1, 2, 3]), 0, mode, 0, stop)
    wait_for_calls(log, process)
    time.sleep(chance.uniform(0, PAUSE_S))
    number = WAYS[what.way]
    if what.victim in modes:
        os.killpg(process.pid, number)
    elif what.victim == "both":
        acts = [lambda: os.killpg(process.pid, number), lambda: os.kill(node.sealer, number)]
        chance.shuffle(acts)
        for act in acts:
            act()
            time.sleep(chance.choice([0, chance.uniform(0, 0.002)]))
        node.reap_sealer()
    else:
        node.end_sealer(number)
        if chance.random() < 0.5:
            node.start_sealer()
        time.sleep(STALE_S if chance.random() < 0.02 else chance.uniform(0, PAUSE_S))
        number = chance.choice(list(WAYS.values()))
        os.killpg(process.pid, number)
    if survivor := _reap_group(process, number):
        faults.append(survivor)
    if node.sealer and node.end_sealer() != 0:
        faults.append("the sealer failed")
    mounts.make_room()
    outcome = seal_and_compare(node, log, 0 if mode == "forks" else process.pid)
    outcome.faults += faults
    return outcome


def wait_for_calls(log: Path, process: "subprocess.Popen[bytes]") -> None:
    """Until a call has returned to the program."""
    while not log.exists() or not any(counted.done(log).values()):
        if process.poll() is not None:
            raise RuntimeError(f"the program ended by itself with {process.returncode}")
        time.sleep(0.001)


def _reap_group(process: "subprocess.Popen[bytes]", number: int) -> str:
    """Waits for the program and its children, of which this process is the parent when it is dead (kills.py). A new
    image that has no handlers yet dies of the signals, too. Returns what it is that has not died."""
    survivor = ""
    give_up = time.monotonic() + ENOUGH_S
    while not survivor:
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.1)
            break
        # An execve of another thread ends the one that runs a signal's handler.
        os.killpg(process.pid, number)
        if time.monotonic() > give_up:
            status = Path(f"/proc/{process.pid}/status").read_text()
            survivor = "survived: " + ", ".join(row for row in status.splitlines() if row.startswith(("State", "Sig")))
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    while True:
        try:
            os.waitpid(-process.pid, 0)
        except ChildProcessError:
            return survivor


def _place(node: Node, journals: Path) -> Path:
    """Where the run's journals are, in the place `journals`."""
    return Path(_native.journal_directory(str(node.run), str(journals)))


def seal_and_compare(node: Node, log: Path, pid: int) -> Outcome:
    """What a run has of programs that are dead. `pid`: of the process that has all the logs, by image; 0: each is of a
    process of its own."""
    outcome = Outcome()
    account = node.seal()
    if account["alive"] or account["failed"]:
        outcome.faults.append(f"not sealed where there is room: {account}")
    places = (_place(node, node.journals), node.run / "journals")
    if left := [path for place in places for path in place.rglob("*") if not path.is_dir()]:
        outcome.faults.append(f"left behind: {left}")
    _compare(node, log, pid, account, outcome)
    return outcome


def _compare(node: Node, log: Path, pid: int, account: dict[str, Any], outcome: Outcome) -> None:
    try:
        found = counted.recorded(node.run)
        headers = block_headers(node.run)
    except (EOFError, OSError, AssertionError) as error:
        outcome.faults.append(f"a trace file is damaged: {error}")
        return
    outcome.lost.update(account["unrecorded_lost"])
    for header in headers:
        outcome.lost.update(header.get("lost", {}))
    missing, others = 0, 0
    for path in sorted(log.parent.iterdir()):
        base = int(path.suffix[1:] or 0) * SECOND_BASE if pid else 0
        others += OTHER_CALLS + counted.pauses(path)
        for tid, count in counted.done(path).items():
            offsets = {offset: n for offset, n in found.get(tid, {}).items() if base <= offset < base + SECOND_BASE}
            absent = [offset for offset in range(base, base + count) if offset not in offsets]
            outcome.calls += count
            outcome.recorded += count - len(absent)
            if twice := [offset for offset, n in offsets.items() if n > 1]:
                outcome.faults.append(f"{path.name}: {len(twice)} reads of {tid} are there twice, from {min(twice)}")
            if len(offsets) + len(absent) > count + 1:
                outcome.faults.append(f"{path.name}: {len(offsets)} reads of thread {tid}, which made {count}")
            missing += len(absent)
    explained = sum(outcome.lost[cause] for cause in LOSES_CALLS)
    if missing > explained and any("no_journal" in header.get("process", {}) for header in headers):
        # A process that could have none says so when it begins; where it is killed, nothing has its number of losses.
        outcome.lost["no_journal (process)"] += missing - explained
    elif missing > explained:
        outcome.faults.append(f"{missing - explained} of {missing} missing reads are in no count of losses")
    elif explained > missing + others:
        outcome.faults.append(f"{explained} calls are counted as lost, {missing} reads are missing")


def block_headers(run: Path) -> list[dict[str, Any]]:
    """The headers of all blocks of a run; every file must be whole."""
    found = []
    for path in sorted((run / "trace").glob("*.pfw.gz")):
        headers, torn, cause, _ = _native.scan_blocks(str(path), 0)
        assert not torn, f"{path}: {torn} bytes are torn: {cause}"
        found += [json.loads(text) for _, _, text in headers]
    return found
