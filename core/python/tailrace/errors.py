"""The errors of tailrace.

    TailraceError                 every error that this package raises on purpose; str() is one line
    +-- UsageError                a wrong argument: a bad tag, a directory that can't be created (exit code 2)
    |   +-- TagError              a tag breaks the rules of docs/trace-format.md
    +-- RunError                  a run directory can't be used (exit code 1)
    |   +-- NotARunError          the directory isn't a run
    |   +-- TraceError            a trace file is torn, foreign or of another version
    |   +-- QueryError            a query names an unknown column, stage or aggregate
    +-- ManagerError              a workflow manager can't be found or queried (exit code 1)
    +-- RegressionError           a limit on compared runs is exceeded (exit code 1)
    +-- FindingError              a run has a finding that it must not have (exit code 1)
    +-- CoreError                 the native core is missing or failed (exit code 1)

A message says what is wrong, where, and what to do.
"""


class TailraceError(Exception):
    """Base of all errors that tailrace raises on purpose."""


class UsageError(TailraceError):
    """A wrong argument."""


class TagError(UsageError):
    """A tag breaks the rules of docs/trace-format.md, "Tags"."""


class RunError(TailraceError):
    """A run directory can't be used."""


class NotARunError(RunError):
    """The directory is not a run directory."""


class TraceError(RunError):
    """A trace file is torn, foreign or of another version."""


class QueryError(RunError):
    """A query names an unknown column, stage or aggregate."""


class ManagerError(TailraceError):
    """A workflow manager can't be found, queried or made to run a job."""


class RegressionError(TailraceError):
    """A limit on compared runs is exceeded."""


class FindingError(TailraceError):
    """A run has a finding that `tailrace report --fail-on` forbids."""


class CoreError(TailraceError):
    """The native core is missing or failed."""
