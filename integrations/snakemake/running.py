"""The scope of a job in the thread that runs it: its tags, when it began and ended, and its error."""

import os
import re
import time
from collections.abc import Callable
from types import TracebackType

from tailrace import context
from tailrace.integrations import declared_log

_BRIEF = re.compile(r"returned non-zero exit status \d+|died with <Signals\.\w+: \d+>")


class Running:
    """Entered by the job's thread. over: called at its end with (begin, end, error or "")."""

    def __init__(self, tags: str, over: Callable[[int, int, str], None], finish: bool = True) -> None:
        self._scope = context.entered(tags, finish=finish)
        self._over = over
        self._process = os.getpid()

    def __enter__(self) -> None:
        self._began_ns = time.time_ns()
        self._scope.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._scope.__exit__()
        self._over(self._began_ns, time.time_ns(), "" if error is None else error_text(error))


def error_text(error: BaseException) -> str:
    """The last line of an exception of a job, and of its cause: Snakemake's own texts repeat the whole command."""
    text = str(error).strip() or type(error).__name__
    brief = _BRIEF.search(text)
    if brief:
        return f"its command {brief[0]}"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return declared_log.error_text(lines[0]) if lines else type(error).__name__
