"""The command line as a user has it, in processes of its own.

`TAILRACE` is the command's words for subprocess; `run_cli` calls it; `TracedCommand` (the fixture `run_traced`) runs a
program traced. harm.py compares a traced program with an untraced one.
"""

import os
import subprocess
import sysconfig
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support import sanitizer, warm_cli

TAILRACE = [str(Path(sysconfig.get_path("scripts")) / "tailrace")]


def run_cli(*arguments: object, timeout: float = 300, **options: Any) -> "subprocess.CompletedProcess[str]":
    """`tailrace ARGUMENTS...`; the result has returncode, stdout and stderr as text. options: subprocess.run's.

    A command that analyses is forked from a process that has imported what it needs (warm_cli.py).
    """
    words = [str(word) for word in arguments]
    env = options.get("env") or os.environ
    # ThreadSanitizer's runtime lets no process start threads that was forked from one with threads.
    if options.keys() <= {"cwd", "env", "stdout"} and sanitizer.CHOSEN != "thread" and warm_cli.can(words, env):
        return warm_cli.call(words, options.get("cwd") or Path.cwd(), env, timeout, options.get("stdout"))
    options = {"capture_output": True, "text": True, "check": False, **options}
    return subprocess.run([*TAILRACE, *words], timeout=timeout, **options)


@dataclass(frozen=True)
class TracedCommand:
    """`tailrace run` with its run in `run` and the command in the directory `work`: call it with the command's words.

    The result has returncode, stdout and stderr as text. A command that fails fails the test, with its stderr;
    `check=False` leaves that to the caller. Called again it adds to the same run.

    tags: KEY=VALUE words. options: further words for `tailrace run`. prefix: words before it. The rest is
    subprocess.run's.
    """

    work: Path
    run: Path

    def __call__(
        self,
        *command: object,
        tags: Iterable[str] = (),
        options: Iterable[object] = ("-q",),
        prefix: Iterable[str] = (),
        check: bool = True,
        **how: Any,
    ) -> "subprocess.CompletedProcess[str]":
        tagging = [word for tag in tags for word in ("--tag", tag)]
        words = [*prefix, *TAILRACE, "run", "-o", self.run, *options, *tagging, "--", *command]
        how = {"cwd": self.work, "capture_output": True, "text": True, "timeout": 300, **how}
        done = subprocess.run([str(word) for word in words], check=False, **how)
        assert not check or done.returncode == 0, done.stderr
        return done
