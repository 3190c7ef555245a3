"""The program `counted` (../programs/counted.c), killed or not: what it had done, and what a trace has of it.

`Node` is a launcher's part of a node, with as little around it as can be, so that many can be killed in a few seconds:
a process with the native sealer, programs with the settings. kill_rounds.py kills them.
"""

import gzip
import os
import re
import signal
import struct
import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
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
    return {tid: count for tid, count, _ in _threads(log) if tid}


def pauses(log: Path) -> int:
    """How often its threads paused."""
    return sum(count for _, _, count in _threads(log))


def _threads(log: Path) -> Iterable[tuple[int, int, int]]:
    return struct.iter_unpack("<QQQ", log.read_bytes())


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
        if not self.journals.exists():
            self.journals.mkdir()
        reading, writing = os.pipe()
        self.sealer = os.fork()
        if self.sealer == 0:
            code = 1
            with suppress(BaseException):
                ends = {signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2}
                signal.pthread_sigmask(signal.SIG_BLOCK, ends)
                sealer = _native.Sealer(str(self.run), str(self.journals))
                os.write(writing, b".")
                # Those that end the process don't wait for the sealer's thread.
                number = signal.sigwait(ends)
                if number == signal.SIGUSR1:
                    os._exit(0)
                elif number == signal.SIGUSR2:
                    os.abort()
                sealer.finish()
                code = 0
            os._exit(code)
        os.close(writing)
        assert os.read(reading, 1) == b"."
        os.close(reading)

    def end_sealer(self, number: signal.Signals = signal.SIGTERM) -> int:
        """By SIGTERM it seals what is left; by SIGUSR1 (_exit), SIGUSR2 (abort) and others it is gone at once. Returns
        its exit code; -9 after SIGKILL."""
        os.kill(self.sealer, number)
        return self.reap_sealer()

    def reap_sealer(self) -> int:
        """The exit code of a sealer that has ended, or is about to."""
        pid, self.sealer = self.sealer, 0
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    def start(
        self, log: Path, *arguments: object, env: Mapping[str, str] | None = None, under: Sequence[str] = ()
    ) -> "subprocess.Popen[bytes]":
        """The program in a process group of its own; `under` is an untraced command before it."""
        words = [str(self.program), str(log), *map(str, arguments)]
        base = clean_environment({"TAILRACE_JOURNAL_DIR": str(self.journals), **(env or {})})
        settings = environment.task_environment(self.run, "", base)
        if under:
            # LD_PRELOAD is there before with a sanitizer, and changed.
            words = [*under, "env", *(f"{name}={value}" for name, value in settings.items() - base.items()), *words]
            settings = base
        return subprocess.Popen(words, env=settings, cwd=self.run.parent, start_new_session=True)

    def seal(self) -> dict[str, Any]:
        """As `tailrace seal` does."""
        account: dict[str, Any] = _native.seal_journals(str(self.run), str(self.journals))
        return account

    def left(self) -> list[Path]:
        """What is left in the place of the journals."""
        return [path for path in self.journals.rglob("*") if not path.is_dir()]
