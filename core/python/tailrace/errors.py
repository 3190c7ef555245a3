"""The errors of tailrace.

    TailraceError                 anything this package raises on purpose; str() is one line for a person
    +-- UsageError                the caller's words are off: a bad tag, a directory that can't be made (exit code 2)
    |   +-- TagError              a tag breaks the rules of docs/trace-format.md
    +-- RunError                  a run directory can't be used (exit code 1)
    |   +-- NotARunError          the directory isn't a run
    |   +-- TraceError            a trace file in it is torn, foreign or of another version
    |   +-- QueryError            a query names a column, stage or aggregate that isn't there
    +-- ManagerError              a workflow manager can't be found or asked (exit code 1)
    +-- RegressionError           compared runs differ beyond a limit that was asked for (exit code 1)
    +-- CoreError                 the native core is missing or could not do its work (exit code 1)

A message names what, where, and what to do.
"""


class TailraceError(Exception):
    """Base of all errors that tailrace raises on purpose."""


class UsageError(TailraceError):
    """The caller's words are off."""


class TagError(UsageError):
    """A tag breaks the rules of docs/trace-format.md, "Tags"."""


class RunError(TailraceError):
    """A run directory can't be used."""


class NotARunError(RunError):
    """The directory is not a run directory."""


class TraceError(RunError):
    """A trace file is torn, foreign or of another version."""


class QueryError(RunError):
    """A query names something that the run does not have."""


class ManagerError(TailraceError):
    """A workflow manager can't be found, asked or made to run something."""


class RegressionError(TailraceError):
    """Compared runs differ beyond a limit that was asked for."""


class CoreError(TailraceError):
    """The native core is missing or could not do its work."""
