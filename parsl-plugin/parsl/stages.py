"""`@stage("align")`: the stage of an app's tasks, above or below python_app, bash_app or join_app.

The name is an attribute of the function that the app submits, so it belongs to the app: two apps of one function may
have different stages.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from tailrace.errors import TagError, UsageError

_NAME = "_tailrace_stage"

App = TypeVar("App", bound=Callable[..., Any])


def stage(name: str) -> Callable[[App], App]:
    """A decorator that names the stage of an app's tasks; without it that is the app's name.

        @stage("align")
        @python_app
        def bwa(reads, outputs=()):
            ...

    Does nothing else: the app is the same with and without tracing. Raises TagError when `name` is no name, UsageError
    when what it decorates can't have one.
    """
    if not isinstance(name, str) or not name:
        raise TagError(f'stage({name!r}): give the stage\'s name: @stage("align")')

    def named(app: App) -> App:
        try:
            setattr(_submitted_by(app), _NAME, name)
        except AttributeError as error:
            raise UsageError(f"stage({name!r}): {app!r} can't have a stage: name it by trace(..., stage=)") from error
        return app

    return named


def declared_stage(function: Any) -> str | None:
    """The stage that `stage` gave the app of a task's function."""
    from tailrace.parsl.functions import described

    for one in described(function).wrapped:
        name = getattr(one, _NAME, None)
        if isinstance(name, str):
            return name
    return None


def _submitted_by(app: Any) -> Any:
    """The function that an app submits, which no other app has; a function itself."""
    from parsl.app.app import AppBase

    if not isinstance(app, AppBase):
        return app
    # A bash app's `func` is the user's own function.
    return getattr(app, "wrapped_remote_function", app.func)
