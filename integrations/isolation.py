"""Steps of an adapter whose exceptions end there: a fault of tracing never reaches the workflow."""

import logging


class Isolation:
    """`with isolation("declare a task"): ...` goes on after the block when it raised an exception.

    The first one is a warning of `log`, all are debug messages: a step that fails once fails for every task.
    """

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._warned = False
        self._steps: dict[str, _Step] = {}

    def __call__(self, what: str) -> "_Step":
        """what: a constant that continues "can't ..."."""
        # Steps have no state: every task takes several, in many threads.
        step = self._steps.get(what)
        if step is None:
            step = self._steps[what] = _Step(self, what)
        return step

    def failed(self, what: str, error: Exception) -> None:
        """Logs that a step failed."""
        if not self._warned:
            self._warned = True
            self._log.warning("tailrace: can't %s: %s: %s; the workflow continues", what, type(error).__name__, error)
        self._log.debug("tailrace: can't %s", what, exc_info=error)


class _Step:
    """A class: contextmanager's generators would take longer than the steps."""

    __slots__ = ("_isolation", "_what")

    def __init__(self, isolation: Isolation, what: str) -> None:
        self._isolation = isolation
        self._what = what

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> bool:
        if not isinstance(error, Exception):
            return False
        self._isolation.failed(self._what, error)
        return True
