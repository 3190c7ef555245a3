"""DFTracer's Python interface over tailrace's regions: annotated programs keep their annotations.

    from tailrace.dftracer import dft_fn, dftracer, ai      # was: from dftracer.python import ...

Unchanged programs find it as `dftracer.logger` and `dftracer.python` in a folder that this prints:

    PYTHONPATH=$(python -m tailrace.dftracer) tailrace run python train.py

Events of `dft_fn` and `ai` are regions (tailrace.regions) with DFTracer's name and category; `epoch` and `step` are
the region's, all else its keys. What traces the calls is tailrace, so `initialize_log` and `finalize` do nothing, and
the variables DFTRACER_* have no effect. Not kept: entities and relations, which are accepted and dropped. `log_event`
with a time of its own is an instant with its duration as a key.
"""

from __future__ import annotations

import functools
import inspect
import threading
import time
from collections.abc import Callable, Generator, Iterable, Mapping
from enum import Enum
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from tailrace import region_keys, regions
from tailrace.regions import region

_F = TypeVar("_F", bound=Callable[..., Any])
_T = TypeVar("_T")

__all__ = [
    "DFTRACER_ENABLE",
    "TagDType",
    "TagType",
    "TagValue",
    "ai",
    "checkpoint",
    "comm",
    "compute",
    "data",
    "dataloader",
    "device",
    "dft_fn",
    "dftracer",
    "pipeline",
]

_KEYS = (*region_keys.NUMBERS, "image_idx", "image_size")


class TagType(Enum):
    """What DFTracer does with a value; all are keys here."""

    KEY = 0
    VALUE = 1
    IGNORE = 2


class TagDType(Enum):
    """DFTracer's types of a value; a key is text here."""

    INT = 0
    FLOAT = 1
    STRING = 2


class TagValue:
    """A value with DFTracer's types."""

    def __init__(self, value: float | str, dtype: TagDType = TagDType.STRING, tag_type: TagType = TagType.KEY) -> None:
        self._value = value


def _arguments(given: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of `region` for those of DFTracer."""
    plain = {name: value._value if isinstance(value, TagValue) else value for name, value in given.items()}
    return region_keys.of_any(plain)


class dftracer:
    """DFTracer's tracer object; tailrace needs none."""

    _instance: dftracer | None = None

    @classmethod
    def get_instance(cls) -> dftracer:
        """The one object."""
        cls._instance = cls._instance or cls()
        return cls._instance

    @classmethod
    def initialize_log(cls, logfile: str | None = None, data_dir: str | None = None, process_id: int = -1) -> dftracer:
        """Does nothing: the launcher decides where the trace is."""
        return cls.get_instance()

    def get_time(self) -> int:
        """Microseconds."""
        return time.time_ns() // 1000

    def get_config(self, key: str) -> str:
        """Nothing: DFTracer's settings have no effect."""
        return ""

    def enter_event(self) -> None:
        """Does nothing: regions nest by themselves."""

    def exit_event(self) -> None:
        """Does nothing."""

    def log_event(
        self,
        name: str,
        cat: str,
        start_time: int,
        duration: int,
        int_args: Mapping[str, Any] | None = None,
        string_args: Mapping[str, Any] | None = None,
        float_args: Mapping[str, Any] | None = None,
        relations: object = None,
    ) -> None:
        """An instant with the times as keys."""
        given = {**(int_args or {}), **(string_args or {}), **(float_args or {})}
        values = {key: value[1] if isinstance(value, tuple) else value for key, value in given.items()}
        keys = _arguments({**values, "start_us": start_time, "duration_us": duration})
        regions.instant(name, cat, **keys)

    def log_metadata_event(self, key: str, value: str) -> None:
        """An instant of the category `metadata`."""
        regions.instant(key, "metadata", **_arguments({"value": value}))

    def set_app_metadata_int(self, key: str, value: int) -> None:
        """An instant of the category `metadata`."""
        self.log_metadata_event(key, str(value))

    def set_app_metadata_string(self, key: str, value: str) -> None:
        """An instant of the category `metadata`."""
        self.log_metadata_event(key, value)

    def declare_entity(self, *_: object, **__: object) -> int:
        """Dropped."""
        return 0

    def declare_entity_type(self, *_: object, **__: object) -> None:
        """Dropped."""

    def relate_entities(self, *_: object, **__: object) -> None:
        """Dropped."""

    def mark_used(self, name: str) -> None:
        """Does nothing."""

    def finalize(self) -> None:
        """Does nothing: the trace is complete at each moment."""


class _Begun(threading.local):
    """The events that a thread is in, by one `dft_fn`, which all threads may share."""

    def __init__(self) -> None:
        self.regions: list[region] = []


class dft_fn:
    """DFTracer's event: a context manager, and decorators `log`, `log_init`, `log_static`; `iter` for loops."""

    def __init__(
        self,
        cat: str,
        name: str | None = None,
        epoch: int | None = None,
        step: int | None = None,
        image_idx: int | None = None,
        image_size: Any = None,
        enable: bool = True,
    ) -> None:
        self._cat = cat
        self._name = name or inspect.stack()[1].function
        self._enable = enable
        self._given: dict[str, Any] = {
            "epoch": epoch,
            "step": step,
            "image_idx": image_idx,
            "image_size": image_size,
        }
        self._begun = _Begun()

    def __enter__(self) -> dft_fn:
        if self._enable:
            self._begun.regions.append(region(self._name, self._cat, **_arguments(self._given)).__enter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.flush()

    def update(
        self,
        epoch: int | None = None,
        step: int | None = None,
        image_idx: int | None = None,
        image_size: Any = None,
        args: Mapping[str, Any] | None = None,
    ) -> dft_fn:
        """Adds arguments to the event, or in a decorated function to that of the call."""
        new = {"epoch": epoch, "step": step, "image_idx": image_idx, "image_size": image_size, **(args or {})}
        new = {name: value for name, value in new.items() if value is not None}
        self._given.update(new)
        if self._begun.regions:
            self._begun.regions[-1].update(**_arguments(new))
        return self

    def flush(self) -> dft_fn:
        """Ends the event now."""
        if self._begun.regions:
            self._begun.regions.pop().__exit__(None, None, None)
        return self

    def reset(self) -> dft_fn:
        """Begins a new event now, which flush() ends."""
        self.flush()
        return self.__enter__()

    def log(self, func: _F | None = None, name: str | None = None) -> Any:
        """A decorator: an event for each call, of a generator for each step, with those of epoch, step, image_idx and
        image_size that the object or the call's arguments have."""
        return self._decorate(func, name, takes_arguments=True)

    def log_init(self, init: _F | None = None, name: str | None = None) -> Any:
        """The same for `__init__`."""
        return self._decorate(init, name, takes_arguments=True)

    def log_static(self, func: _F | None = None, name: str | None = None) -> Any:
        """The same for a static method, without its arguments."""
        return self._decorate(func, name, takes_arguments=False)

    def log_metadata(self, key: str, value: str) -> None:
        """An instant of the category `metadata`."""
        if self._enable:
            dftracer.get_instance().log_metadata_event(key, value)

    def iter(self, func: Iterable[_T], name: str = "loop", iter_name: str = "step") -> Generator[_T, Any, Any]:
        """The items; each wait for one is an event `<name>.iter`, each use of one `<name>.yield`, numbered from 1."""
        yield from _loop(func, self._cat, f"{name}.iter", f"{name}.yield", iter_name, self._enable)

    def relate(self, *_: object) -> dft_fn:
        """Dropped."""
        return self

    def relate_entity(self, *_: object, **__: object) -> int:
        """Dropped."""
        return 0

    uses = generates = relate_entity

    def _decorate(self, function: Any, name: str | None, takes_arguments: bool) -> Any:
        if function is None:
            return lambda given: self._decorate(given, name, takes_arguments)
        plain = function.__func__ if isinstance(function, staticmethod) else function
        if not self._enable:
            return plain
        called = name or plain.__qualname__
        names = list(inspect.signature(plain).parameters) if takes_arguments else []
        wanted = [(place, key) for place, key in enumerate(names) if key in _KEYS]
        has_steps = inspect.isgeneratorfunction(plain)
        is_awaited = inspect.iscoroutinefunction(plain)

        @functools.wraps(plain)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            given: dict[str, Any] = {}
            if names[:1] == ["self"]:
                given = {key: getattr(args[0], key) for key in _KEYS if hasattr(args[0], key)}
            for place, key in wanted:
                given[key] = args[place] if place < len(args) else kwargs.get(key)
            arguments = _arguments(given)
            if is_awaited:
                return region(called, self._cat, **arguments)(plain)(*args, **kwargs)
            if has_steps:
                return self._in_steps(plain(*args, **kwargs), called, arguments)
            with region(called, self._cat, **arguments) as begun:
                self._begun.regions.append(begun)
                try:
                    return plain(*args, **kwargs)
                finally:
                    self._begun.regions.pop()

        return wrapper

    def _in_steps(
        self, generator: Generator[Any, Any, Any], name: str, arguments: Mapping[str, Any]
    ) -> Generator[Any, Any, Any]:
        """The generator, each step an event of its own: in between, the consumer's code runs."""
        step: Callable[[], Any] = functools.partial(next, generator)
        while True:
            with region(name, self._cat, **arguments) as begun:
                self._begun.regions.append(begun)
                try:
                    item = step()
                except StopIteration as stop:
                    return stop.value
                finally:
                    self._begun.regions.pop()
            try:
                value = yield item
            except GeneratorExit:
                generator.close()
                raise
            except BaseException as error:
                step = functools.partial(generator.throw, error)
            else:
                step = functools.partial(generator.send, value)


def _loop(
    items: Iterable[_T], category: str, wait: str, use: str, number: str, enabled: bool = True
) -> Generator[_T, Any, Any]:
    if not enabled:
        yield from items
        return
    iterator, count = iter(items), 1
    while True:
        with region(wait, category, **_arguments({number: count})):
            try:
                item = next(iterator)
            except StopIteration:
                return
        with region(use, category, **_arguments({number: count})):
            yield item
        count += 1


class DFTracerAI:
    """A node of `ai`: a decorator, a context manager, and `iter`; `start` and `stop` begin and end an event by hand."""

    def __init__(self, cat: str, name: str, children: Mapping[str, Any] | None = None, **arguments: Any) -> None:
        self.cat, self.name = cat, name
        self._enabled = True
        self._arguments: dict[str, Any] = arguments
        self._begun: list[region] = []
        self._children: dict[str, DFTracerAI] = {}
        for attribute, below in (children or {}).items():
            self._children[attribute] = DFTracerAI(cat, f"{name}.{attribute}" if name != cat else attribute, below)

    def __getattr__(self, name: str) -> DFTracerAI:
        children = self.__dict__.get("_children", {})
        if name not in children:
            raise AttributeError(name)
        found: DFTracerAI = children[name]
        return found

    def __call__(self, fn: Any = None, *, enable: bool | None = None, args: Any = None, **arguments: Any) -> Any:
        more = {**self._arguments, **arguments, **(args or {})}
        enabled = self._enabled if enable is None else enable
        if fn is None:
            made = DFTracerAI(self.cat, self.name, None, **more)
            made._enabled = enabled
            return made
        return region(self.name, self.cat, **_arguments(more))(fn) if enabled else fn

    def init(self, fn: Any = None, **arguments: Any) -> Any:
        """The same for the `__init__` of what the node is about."""
        return DFTracerAI(self.cat, f"{self.name}.init", None, **self._arguments)(fn, **arguments)

    def derive(self, name: str) -> DFTracerAI:
        """A node below this one."""
        return self._children.setdefault(name, DFTracerAI(self.cat, f"{self.name}.{name}"))

    def __enter__(self) -> DFTracerAI:
        if self._enabled:
            self._begun.append(region(self.name, self.cat, **_arguments(self._arguments)).__enter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._begun:
            self._begun.pop().__exit__(kind, error, traceback)

    def start(self, metadata: bool = False) -> None:
        """Begins an event; metadata: only says so."""
        if metadata:
            dftracer.get_instance().log_metadata_event(f"{self.name}.start", str(self.get_time()))
        else:
            self.__enter__()

    def stop(self, metadata: bool = False) -> None:
        """Ends it."""
        if metadata:
            dftracer.get_instance().log_metadata_event(f"{self.name}.end", str(self.get_time()))
        else:
            self.__exit__(None, None, None)

    def reset(self) -> None:
        """Ends the event, if there is one."""
        self.stop()

    def get_time(self) -> int:
        """Microseconds."""
        return dftracer.get_instance().get_time()

    def enable(self) -> None:
        """Records this node and those below it from now on."""
        self._set(True)

    def disable(self) -> None:
        """Records neither from now on; decorated functions are what they were decorated as."""
        self._set(False)

    def _set(self, enabled: bool) -> None:
        self._enabled = enabled
        for child in self._children.values():
            child._set(enabled)

    def update(self, args: Mapping[str, Any] | None = None, **arguments: Any) -> DFTracerAI:
        """Adds arguments to this node's events and those below it."""
        more = {name: value for name, value in {**arguments, **(args or {})}.items() if value is not None}
        self._arguments.update(more)
        for child in self._children.values():
            child.update(**more)
        if self._begun:
            self._begun[-1].update(**_arguments(more))
        return self

    def iter(
        self,
        iterator: Iterable[_T],
        *,
        include_block: bool = True,
        include_iter: bool = True,
        iter_name: str | None = None,
        block_name: str | None = None,
    ) -> Generator[_T, Any, Any]:
        """The items; each wait for one is an event `<name>.iter`, each use of one `<name>.block`, with its number."""
        wait = iter_name or (self.name if self.name.endswith(".iter") else f"{self.name}.iter")
        use = block_name or (self.name if self.name.endswith(".block") else f"{self.name}.block")
        items, count = iter(iterator), 1
        while True:
            try:
                with _if(include_iter and self._enabled, wait, self.cat, {**self._arguments, "count": count}):
                    item = next(items)
            except StopIteration:
                return
            with _if(include_block and self._enabled, use, self.cat, {**self._arguments, "count": count}):
                yield item
            count += 1


class _if:
    """A region, or none."""

    def __init__(self, wanted: bool, name: str, category: str, arguments: Mapping[str, Any]) -> None:
        self._region = region(name, category, **_arguments(arguments)) if wanted else None

    def __enter__(self) -> None:
        if self._region is not None:
            self._region.__enter__()

    def __exit__(self, *error: Any) -> None:
        if self._region is not None:
            self._region.__exit__(*error)


_IO: dict[str, Any] = dict.fromkeys(("open", "read", "write", "close"))
_TREE: dict[str, dict[str, Any]] = {
    "compute": dict.fromkeys(("forward", "backward", "step")),
    "data": {"preprocess": None, "item": None, "io": _IO},
    "dataloader": {"fetch": None},
    "comm": dict.fromkeys(
        (
            *("send", "receive", "barrier", "bcast", "reduce", "all_reduce", "gather", "all_gather", "scatter"),
            *("reduce_scatter", "all_to_all"),
        )
    ),
    "device": {"transfer": None},
    "checkpoint": {"capture": None, "restart": None, "io": _IO},
    "pipeline": dict.fromkeys(("epoch", "train", "evaluate", "test")),
    "other": {"log": None},
}

DFTRACER_ENABLE = True
"""As programs ask DFTracer's modules whether there is a tracer."""

ai = DFTracerAI("ai_root", "ai_root")
for _name, _below in _TREE.items():
    ai._children[_name] = DFTracerAI(_name, _name, _below)
comm, compute, data, dataloader = ai.comm, ai.compute, ai.data, ai.dataloader
device, checkpoint, pipeline = ai.device, ai.checkpoint, ai.pipeline


if __name__ == "__main__":
    print(Path(__file__).absolute().parent / "stand_ins")
