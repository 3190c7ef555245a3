"""How a task of Parsl ended, from its exception: the status (docs/declared-dag.md) and the reason."""

from parsl.app.errors import AppTimeout, BashExitFailure
from parsl.dataflow.errors import DependencyError
from tailrace.base.exit_codes import ended
from tailrace.integrations.declared_log import error_text

_LOST = ("WorkerLost", "ManagerLost")
"""HighThroughputExecutor's exceptions for tasks whose process is gone. Parsl without its extra packages can't import
them."""


def status_and_error(error: BaseException) -> tuple[str, str]:
    """The status of a task, or of a try, that ended with `error`, and the error as text."""
    text = error_text(error)
    if isinstance(error, DependencyError):
        return "dep_failed", text
    if isinstance(error, AppTimeout):
        return "timeout", text
    if isinstance(error, BashExitFailure):
        status, reason = ended(error.exitcode)
        return status, f"{text}, {reason}" if status == "killed" else text
    return ("killed" if type(error).__name__ in _LOST else "failed"), text
