"""DFTracer's tracer object and its events of functions, blocks and loops, over tailrace's regions."""

from __future__ import annotations

import functools
import inspect
import logging
import threading
import time
from collections.abc import Callable, Generator, Iterable, Mapping
from types import TracebackType
from typing import Any, TypeVar

from tailrace import region_keys, regions
from tailrace.dftracer.kinds import EntityID, EntityRelation, EntityRole, EntityStore, NoOpProfiler, TagValue
from tailrace.regions import region

_F = TypeVar("_F", bound=Callable[..., Any])
_T = TypeVar("_T")
_KEYS = (*region_keys.NUMBERS, "image_idx", "image_size")


def arguments_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of `region` for those of DFTracer."""
    plain = {name: value._value if isinstance(value, TagValue) else value for name, value in given.items()}
    return region_keys.of_any(plain)


class dftracer:
    """DFTracer's tracer object; tailrace needs none."""

    _instance: dftracer | None = None

    def __init__(self) -> None:
        self.logger = NoOpProfiler()
        self.dbg_logging = logging.getLogger("dftracer_dbg")
        self.start_time = self.get_time()

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
        keys = arguments_of({**values, "start_us": start_time, "duration_us": duration})
        regions.instant(name, cat, **keys)

    def log_metadata_event(self, key: str, value: str) -> None:
        """An instant of the category `metadata`."""
        regions.instant(key, "metadata", **arguments_of({"value": value}))

    def set_app_metadata_int(self, key: str, value: int) -> None:
        """An instant of the category `metadata`."""
        self.log_metadata_event(key, str(value))

    def set_app_metadata_string(self, key: str, value: str) -> None:
        """An instant of the category `metadata`."""
        self.log_metadata_event(key, value)

    def declare_entity(
        self,
        type: str,
        key: Any,
        store: EntityStore = EntityStore.MEMORY,
        uri: str = "",
    ) -> EntityID:
        """Dropped."""
        return 0

    def declare_entity_type(
        self,
        type: str,
        role: EntityRole = EntityRole.UNKNOWN,
        description: str = "",
    ) -> None:
        """Dropped."""

    def relate_entities(self, relation: EntityRelation, subject: EntityID, object: EntityID) -> None:
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
            self._begun.regions.append(region(self._name, self._cat, **arguments_of(self._given)).__enter__())
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
            self._begun.regions[-1].update(**arguments_of(new))
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

    def relate(self, relation: EntityRelation, entity: EntityID) -> dft_fn:
        """Dropped."""
        return self

    def relate_entity(
        self,
        relation: EntityRelation,
        type: str,
        key: Any,
        store: EntityStore = EntityStore.MEMORY,
        uri: str = "",
    ) -> EntityID:
        """Dropped."""
        return 0

    def uses(
        self,
        type: str,
        key: Any,
        store: EntityStore = EntityStore.MEMORY,
        uri: str = "",
    ) -> EntityID:
        """Dropped."""
        return 0

    generates = uses

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
            arguments = arguments_of(given)
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
        with region(wait, category, **arguments_of({number: count})):
            try:
                item = next(iterator)
            except StopIteration:
                return
        with region(use, category, **arguments_of({number: count})):
            yield item
        count += 1
