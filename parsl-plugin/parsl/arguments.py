"""A task's arguments as bounded text, for its declaration.

Invariants: no code of the user runs: of objects other than Python's own, paths, Parsl's files and futures, and what
numpy has, only the class is told. What TAILRACE_REDACT hides in command lines is hidden here, too, and before anything
is cut: a secret that is cut is not recognized any more.
"""

import inspect
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from functools import lru_cache
from itertools import islice
from pathlib import PurePath
from typing import Any

from parsl.app.futures import DataFuture
from parsl.data_provider.files import File
from parsl.dataflow.futures import AppFuture
from parsl.dataflow.taskrecord import TaskRecord
from tailrace import _native, context
from tailrace.parsl.functions import users_own

REDACT = "TAILRACE_REDACT"
MOST_ARGUMENTS = 20
MOST_CHARACTERS = 100
"""Of an argument."""
_MOST_ELEMENTS = 6
_MOST_DEPTH = 3
_MOST_LENGTH = 400
"""Of a string, before secrets are looked for."""
_MOST_BITS = 256
"""Of an integer: longer ones take Python long to write, or can't be written."""
_MORE = "..."
_ELSEWHERE = frozenset({"inputs", "outputs", "stdout", "stderr", "parsl_resource_specification"})
"""Declared as files and resources."""
_REDACTIONS = ("secrets", "none")
_NUMBERS = frozenset({int, float, bool, type(None)})
"""Of their texts nothing is a secret but for the argument's name."""
_BRACKETS: dict[type, tuple[str, str]] = {
    list: ("[", "]"),
    tuple: ("(", ")"),
    set: ("{", "}"),
    frozenset: ("{", "}"),
}


def mode_here() -> str | None:
    """What is hidden of the arguments in this process, for `of_task`; None where nothing of them may be recorded."""
    mode = context.setting(REDACT) or os.environ.get(REDACT) or "secrets"
    return mode if mode in _REDACTIONS else None


def of_task(record: TaskRecord, mode: str) -> dict[str, str]:
    """The arguments of a task by their names.

    A positional one has its parameter's name, so that it is known which are secrets.
    """
    names = _positional_names(users_own(record["func"]))
    given = list(_named(names, record["args"]))
    given += [(name, value) for name, value in record["kwargs"].items() if _is_told(name, value)]
    found = dict(_told(name, value, mode) for name, value in given[:MOST_ARGUMENTS])
    if len(given) > MOST_ARGUMENTS:
        found[_MORE] = f"{len(given) - MOST_ARGUMENTS} more"
    return found


def _is_told(name: str, value: object) -> bool:
    return name not in _ELSEWHERE and not name.startswith("_parsl") and not (name == "walltime" and value is None)


def _named(names: tuple[str, ...], values: Sequence[Any]) -> Iterable[tuple[str, Any]]:
    """Each positional argument with its parameter's name; those of `*args` are `args[0]`, ..."""
    fixed = len(names) - 1
    for at, value in enumerate(values):
        yield (names[at] if at < fixed else f"{names[-1]}[{at - fixed}]"), value


def _positional_names(function: Callable[..., Any]) -> tuple[str, ...]:
    """The positional parameters, and what the others are called."""
    try:
        return _signature_names(function)
    except (TypeError, ValueError):  # unhashable; a builtin without a signature
        return ("args",)


@lru_cache(maxsize=1024)
def _signature_names(function: Callable[..., Any]) -> tuple[str, ...]:
    parameters = list(inspect.signature(function).parameters.values())
    fixed = [one.name for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    rest = [one.name for one in parameters if one.kind is one.VAR_POSITIONAL]
    return (*fixed, *(rest or ["args"]))


def _told(name: str, value: object, mode: str) -> tuple[str, str]:
    text = _text(value, mode, 0)
    if type(value) in _NUMBERS and not _is_secret(name, mode):
        return name, text
    # By the name before it is known what is a secret.
    (redacted,) = _redacted([f"{name}={text}"], mode)
    text = redacted[len(name) + 1 :]
    return name, text if len(text) <= MOST_CHARACTERS else text[: MOST_CHARACTERS - len(_MORE)] + _MORE


@lru_cache(maxsize=1024)
def _is_secret(name: str, mode: str) -> bool:
    """Whether every value of an argument of this name is hidden."""
    return _redacted([f"{name}=0"], mode) != [f"{name}=0"]


def _redacted(words: Sequence[str], mode: str) -> list[str]:
    """The words of a command's arguments, without secrets."""
    command = [b"-", *(word.encode("utf-8", "backslashreplace") for word in words)]
    return [word.decode("utf-8", "replace") for word in _native.redact(command, mode)[1:]]


def _text(value: Any, mode: str, depth: int) -> str:
    """`value` as Python would write it, bounded. Methods of the base class: one of a subclass is the user's."""
    if value is None or isinstance(value, bool):
        return repr(value)
    if isinstance(value, int):
        bits = value.bit_length()
        return int.__repr__(value) if bits <= _MOST_BITS else f"<int of {bits} bits>"
    if isinstance(value, float):
        return float.__repr__(value)
    if isinstance(value, (str, bytes)):
        return _string(value)
    if isinstance(value, PurePath):
        return _string(str(value))
    if isinstance(value, File):
        return _string(value.url)
    if isinstance(value, Future):
        return _future(value)
    if type(value) in _BRACKETS:
        return _collection(value, mode, depth)
    if type(value) is dict:
        return _mapping(value, mode, depth)
    return _numpy(value) or f"<{type(value).__module__}.{type(value).__qualname__}>"


def _string(value: str | bytes) -> str:
    kind = str if isinstance(value, str) else bytes
    text = kind.__repr__(value[:_MOST_LENGTH])
    return text if len(value) <= _MOST_LENGTH else text[:-1] + _MORE + text[-1]


def _future(future: Future[Any]) -> str:
    """Of an argument that is not there yet. An AppFuture makes a task of every attribute that it doesn't have."""
    if isinstance(future, DataFuture):
        return _string(future.file_obj.url)
    if isinstance(future, AppFuture):
        return f"<result of {future.task_record['func_name']} {future.tid}>"
    return "<future>"


def _collection(value: Any, mode: str, depth: int) -> str:
    opening, closing = _BRACKETS[type(value)]
    if depth == _MOST_DEPTH:
        return opening + _MORE + closing
    elements = list(islice(value, _MOST_ELEMENTS))
    if elements and all(type(one) is str for one in elements):
        # A command: an option tells that the next word is a secret.
        elements = _redacted([one[:_MOST_LENGTH] for one in elements], mode)
    texts = [_text(one, mode, depth + 1) for one in elements] + [_MORE] * (len(value) > _MOST_ELEMENTS)
    return opening + ", ".join(texts) + ("," if type(value) is tuple and len(value) == 1 else "") + closing


def _mapping(value: Mapping[Any, Any], mode: str, depth: int) -> str:
    if depth == _MOST_DEPTH:
        return "{" + _MORE + "}"
    items = islice(value.items(), _MOST_ELEMENTS)
    texts = [f"{_text(name, mode, depth + 1)}: {_text(one, mode, depth + 1)}" for name, one in items]
    return "{" + ", ".join(texts + [_MORE] * (len(value) > _MOST_ELEMENTS)) + "}"


def _numpy(value: Any) -> str:
    """A number of numpy's as one of Python's, an array as its form; "" for what is neither."""
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return ""
    if isinstance(value, numpy.ndarray):
        return f"<array of {value.dtype}, {value.shape}>"
    for kind, own in ((numpy.integer, int), (numpy.floating, float), (numpy.bool_, bool)):
        if isinstance(value, kind):
            return repr(own(value))
    return ""
