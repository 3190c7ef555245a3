"""The program `counted` (../programs/counted.c), killed or not: what it had done, and what a trace has of it.

`Node` is a launcher's part of a node, with as little around it as can be, so that many can be killed in a few seconds:
a process with the native sealer, programs with the settings. `run_kill` is one run of the program of which something is
killed.
"""

import gzip
import os
import random
import re
import shutil
import signal
import struct
import subprocess
import time
from collections import Counter, defaultdict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.harm import clean_environment
from tailrace import _native
from tailrace.integrations import environment

_READ = re.compile(rb'^\{"name":"pread","cat":"POSIX","ph":"X","pid":\d+,"tid":(\d+),.*?"offset":(\d+)', re.MULTILINE)
SECOND_BASE = 1_000_000_000
"""The first offset that a program reads which was executed by another one."""


def done(log: Path) -> dict[int, int]:
    """tid -> number of its reads that had returned."""
    words = struct.iter_unpack("<QQ", log.read_bytes())
    return {tid: count for tid, count in words if tid}


def recorded(run: Path) -> dict[int, Counter[int]]:
    """tid -> offset -> how often it is in the trace. Every file must be whole."""
    found: dict[int, Counter[int]] = defaultdict(Counter)
    for path in sorted((run / "trace").glob("*.pfw.gz")):
        for tid, offset in _READ.findall(gzip.decompress(path.read_bytes())):
            found[int(tid)][int(offset)] += 1
    return found


def check(log: Path, run: Path, base: int = 0, lost: int = 0) -> int:
    """Every read that had returned is in the trace once, but for `lost` of them; of each thread there may be one more.
    Returns the number of reads."""
    found = recorded(run)
    for tid, count in done(log).items():
        offsets = {offset: n for offset, n in found.get(tid, {}).items() if base <= offset < base + SECOND_BASE}
        twice = [offset for offset, times in offsets.items() if times > 1]
        missing = [offset for offset in range(base, base + count) if offset not in offsets]
        assert not twice, f"{len(twice)} reads of thread {tid} are there twice, the first at {min(twice)}"
        lost -= len(missing)
        assert lost >= 0, f"{len(missing)} of {count} reads of thread {tid} are missing, the first at {missing[0]}"
        assert len(offsets) <= count + 1, f"{len(offsets)} reads of thread {tid}, which made {count}"
    return sum(done(log).values())


@dataclass
class Node:
    """A run's processes on a node, and their sealer: a process that may be killed."""

    program: Path
    run: Path
    journals: Path
    sealer: int = 0

    def start_sealer(self) -> None:
        (self.run / "trace").mkdir(parents=True, exist_ok=True)
        self.journals.mkdir(exist_ok=True)
        reading, writing = os.pipe()
        self.sealer = os.fork()
        if self.sealer == 0:
            code = 1
            with suppress(BaseException):
                signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
                sealer = _native.Sealer(str(self.run), str(self.journals))
                os.write(writing, b".")
                signal.sigwait({signal.SIGTERM})
                sealer.finish()
                code = 0
            os._exit(code)
        os.close(writing)
        assert os.read(reading, 1) == b"."
        os.close(reading)

    def end_sealer(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Its exit code; -9 after SIGKILL."""
        os.kill(self.sealer, number)
        return os.waitstatus_to_exitcode(os.waitpid(self.sealer, 0)[1])

    def start(self, log: Path, *arguments: object, env: Mapping[str, str] | None = None) -> "subprocess.Popen[bytes]":
        words = [str(self.program), str(log), *map(str, arguments)]
        base = clean_environment({"TAILRACE_JOURNAL_DIR": str(self.journals), **(env or {})})
        settings = environment.task_environment(self.run, "", base)
        return subprocess.Popen(words, env=settings, cwd=self.run.parent)

    def seal(self) -> dict[str, Any]:
        """As `tailrace seal` does."""
        account: dict[str, Any] = _native.seal_journals(str(self.run), str(self.journals))
        return account

    def left(self) -> list[Path]:
        """What is left in the place of the journals."""
        return [path for path in self.journals.rglob("*") if not path.is_dir()]


KILLS = ["program", "sealer", "both", "sealer, program ends", "sealer, another comes"]


def run_kill(node: Node, log: Path, whom: str, chance: random.Random) -> int:
    """One run of the program, of which `whom` is killed; the trace is compared with the program's log. Returns the
    number of its calls."""
    shutil.rmtree(node.run, ignore_errors=True)
    node.start_sealer()
    ends = "ends" in whom or "another" in whom
    process = node.start(log, chance.choice([1, 2, 3]), 100_000 if ends else 0, "end" if ends else "wait")
    while not log.exists() or not any(done(log).values()):
        time.sleep(0.001)
    time.sleep(chance.uniform(0, 0.05))
    if whom == "both":
        victims = [process.pid, node.sealer]
        chance.shuffle(victims)
        for pid in victims:
            os.kill(pid, signal.SIGKILL)
    elif whom == "program":
        process.kill()
    else:
        os.kill(node.sealer, signal.SIGKILL)
        os.waitpid(node.sealer, 0)
        if "another" in whom:
            node.start_sealer()
        if not ends:
            time.sleep(chance.uniform(0, 0.02))
            process.kill()
    process.wait()
    if whom == "both":
        os.waitpid(node.sealer, 0)
    elif whom == "program" or "another" in whom:
        assert node.end_sealer() == 0
    account = node.seal()
    assert (account["alive"], account["failed"]) == (0, 0)
    assert node.left() == []
    return check(log, node.run)
