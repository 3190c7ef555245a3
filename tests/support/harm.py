"""Running a command untraced and traced, and comparing: what it prints, how it ends, what files it leaves."""

import os
import stat
import subprocess
import sysconfig
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from support import sanitizer
from support.commands import TAILRACE
from support.truth import Seen, read_run

Program = Callable[[str], Path]


@dataclass(frozen=True)
class Outcome:
    """A traced run that was no different from the untraced one."""

    work: Path
    run: Path
    stdout: str
    stderr: str

    @cached_property
    def seen(self) -> Seen:
        """The trace."""
        return read_run(self.run)

    def check_written(self, *names: str) -> None:
        """The trace has all bytes of these files, each once; they were only ever appended to."""
        seen = self.seen
        for name in names:
            assert seen.written(self.work / name) == (self.work / name).stat().st_size, name


@dataclass
class Table:
    """Lines that stand under their heading at the end of the tests' output."""

    heading: str = ""
    rows: list[str] = field(default_factory=list)


def is_fifo(path: bytes) -> bool:
    return stat.S_ISFIFO(os.lstat(path).st_mode)


def files_of(directory: Path) -> dict[str, bytes]:
    """Every file under a directory; a pipe is empty. What lies too deep to be opened by its whole path is left out."""
    found: dict[str, bytes] = {}
    for at, _, names in os.walk(os.fsencode(directory)):
        for name in names:
            path = at + b"/" + name
            if len(path) < 4000:
                relative = os.fsdecode(os.path.relpath(path, os.fsencode(directory)))
                found[relative] = Path(os.fsdecode(path)).read_bytes() if not is_fifo(path) else b""
    return found


def clean_environment(extra: dict[str, str]) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("TAILRACE_", "LD_PRELOAD"))}
    return {**kept, "LC_ALL": "C.UTF-8", **extra, **sanitizer.variables(extra.get("LD_PRELOAD", ""))}


def active_environment() -> dict[str, str]:
    """As in an activated virtual environment: `tailrace` is found by PATH."""
    return clean_environment({"PATH": f"{sysconfig.get_path('scripts')}{os.pathsep}{os.environ['PATH']}"})


def as_shell(returncode: int) -> int:
    """A subprocess's return code as a shell, and `tailrace run`, give it."""
    return 128 - returncode if returncode < 0 else returncode


class Harm:
    """Runs a command untraced and traced, in directories of the same content and the same path, and compares.

    `same_files`: the files that are left behind too. `unlike` names those that no two runs have alike. `same_stderr`:
    what it says there too. `settle` makes equal what differs from run to run, process numbers say.
    `prefix`: words before both commands.
    """

    def __init__(self, tmp_path: Path) -> None:
        self.tmp_path = tmp_path
        self.run = tmp_path / "run"

    def __call__(
        self,
        *command: str | Path,
        same_files: bool = True,
        unlike: tuple[str, ...] = (),
        same_stderr: bool = False,
        settle: Callable[[bytes], bytes] = bytes,
        env: dict[str, str] | None = None,
        prefix: Sequence[str] = (),
    ) -> Outcome:
        words = [str(word) for word in command]
        options: dict[str, Any] = {"capture_output": True, "check": False, "timeout": 300, "stdin": subprocess.DEVNULL}
        variables = clean_environment(env or {})
        work = self._directory()
        plain = subprocess.run([*prefix, *words], cwd=work, env=sanitizer.without_settings(variables), **options)
        untraced = work.rename(self.tmp_path / "untraced")
        work = self._directory()
        tailrace = [*TAILRACE, "run", "-o", str(self.run), "--tag", "stage=harm", "--"]
        traced = subprocess.run([*prefix, *tailrace, *words], cwd=work, env=variables, **options)
        stderr = traced.stderr.decode(errors="replace")
        assert settle(traced.stdout) == settle(plain.stdout), stderr
        assert traced.returncode == as_shell(plain.returncode), stderr
        if same_stderr:
            said = b"".join(line for line in traced.stderr.splitlines(True) if not line.startswith(b"tailrace: "))
            assert settle(said) == settle(plain.stderr)
        if same_files:
            files = [files_of(directory) for directory in (work, untraced)]
            for name in unlike:
                assert (name in files[0]) == (name in files[1])
                for found in files:
                    found.pop(name, None)
            assert files[0] == files[1]
        return Outcome(work, self.run, plain.stdout.decode(errors="replace"), stderr)

    def _directory(self) -> Path:
        work = self.tmp_path / "work"
        work.mkdir()
        (work / "given").write_text("given to the program\n")
        return work
