"""Regions: what the program itself says that it is doing, as events beside the calls that it makes meanwhile.

    import tailrace

    @tailrace.region                                  # a region for each call, named as the function
    def load(path): ...

    with tailrace.region("epoch", epoch=3):           # a region for a block
        for batch in tailrace.steps(loader, "load"):  # each wait for an item is a region with its number as step
            with tailrace.region("compute", "compute", loss="mse") as r:
                r.update(accuracy=train(batch))       # what is known at the end only
    tailrace.instant("checkpoint written")
    tailrace.counter("loss", 0.25)

Records of the thread in a region, and of the threads and programs started there, carry its path as `region`
(`train/load`). Regions nest by thread and, where code moves between threads or waits, by its context variables: one in
a function of `asyncio.to_thread` is below that of its caller. A decorated coroutine or generator is in its region only
while it runs. A `with` block that awaits is right about its time and its nesting, but calls of other coroutines that
run meanwhile may carry its path: Python tells no one of a change of context before 3.14. Prefer the decorator there.

In an untraced process each of these costs a call that does nothing.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, TypeVar, overload

from tailrace import _regions

_F = TypeVar("_F", bound=Callable[..., Any])
_T = TypeVar("_T")

Value = str | int | float | bool
"""What a region's key may have as value; it is recorded as text."""

definition_of = functools.lru_cache(maxsize=4096)(_regions.define)


def encode_keys(keys: Mapping[str, Value]) -> bytes | None:
    if not keys:
        return None
    from tailrace.tags import encode

    return encode({key: text for key, value in keys.items() if (text := str(value))}).encode()


class region:
    """A region of the program: a context manager for a block, a decorator for functions, coroutines and generators.

    name: of the region; of a decorated function its qualified name when left out. category: what kind of work it is;
    `compute` is what I/O may hide behind, `io` is I/O of the application (docs/regions.md). epoch, step: numbers of a
    training loop or solver; keys: further ones, by the rules for tags.

    An instance is for one block at a time; a decorated function makes one for each call.
    Raises TagError when a key breaks the rules for tags, traced or not.
    """

    __slots__ = ("_category", "_changed", "_definition", "_epoch", "_keys", "_name", "_region", "_step")

    @overload
    def __new__(cls, name: _F, /) -> _F: ...  # type: ignore[misc]

    @overload
    def __new__(
        cls,
        name: str = "",
        category: str = "",
        *,
        epoch: int | None = None,
        step: int | None = None,
        **keys: Value,
    ) -> region: ...

    def __new__(cls, name: Any = "", category: str = "", **keys: Any) -> Any:
        if callable(name):
            return cls()(name)
        return super().__new__(cls)

    def __init__(
        self,
        name: Any = "",
        category: str = "",
        *,
        epoch: int | None = None,
        step: int | None = None,
        **keys: Value,
    ) -> None:
        self._name: str = name
        self._category = category
        self._definition = definition_of(name, category) if name else None
        self._epoch = epoch
        self._step = step
        self._keys = keys
        if keys:
            encode_keys(keys)
        self._changed = False
        self._region: _regions.Region | None = None

    def __enter__(self) -> region:
        if self._definition is None:
            raise ValueError('a region for a block needs a name: tailrace.region("name")')
        self._region = _regions.begin(self._definition, self._epoch, self._step, encode_keys(self._keys))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        begun, self._region = self._region, None
        if self._changed or self._keys:
            _regions.end(begun, self._epoch, self._step, encode_keys(self._keys))
        else:
            _regions.end(begun)

    async def __aenter__(self) -> region:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, traceback)

    def update(self, *, epoch: int | None = None, step: int | None = None, **keys: Value) -> None:
        """Adds what became known in the region. Raises TagError when a key breaks the rules for tags."""
        encode_keys(keys)
        self._epoch = self._epoch if epoch is None else epoch
        self._step = self._step if step is None else step
        self._keys = {**self._keys, **keys}
        self._changed = True

    def __call__(self, function: _F) -> _F:
        """The function with a region of its own for each call."""
        definition = self._definition or definition_of(function.__qualname__, self._category)
        fixed = (self._epoch, self._step, encode_keys(self._keys))
        given: tuple[Any, ...] = fixed if any(value is not None for value in fixed) else ()
        wrapper: Any
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def wrapper(*args: Any, **kwargs: Any) -> Any:
                return await _Driven(function(*args, **kwargs).__await__, definition, given)

        elif inspect.isasyncgenfunction(function):

            @functools.wraps(function)
            async def wrapper(*args: Any, **kwargs: Any) -> Any:
                driven = _driven_async(function(*args, **kwargs), definition, given)
                async for item in driven:
                    yield item

        elif inspect.isgeneratorfunction(function):

            @functools.wraps(function)
            def wrapper(*args: Any, **kwargs: Any) -> Any:
                return (yield from _driven(function(*args, **kwargs), definition, given))

        else:
            begin, end = _regions.begin, _regions.end

            @functools.wraps(function)
            def wrapper(*args: Any, **kwargs: Any) -> Any:
                begun = begin(definition, *given)
                try:
                    return function(*args, **kwargs)
                finally:
                    end(begun)

        return wrapper


def _driven(
    generator: Generator[Any, Any, Any], definition: _regions.Definition, given: tuple[Any, ...]
) -> Generator[Any, Any, Any]:
    """The generator, in a region from its first step to its end, and the thread in it only while the generator runs."""
    begun = _regions.begin(definition, *given)
    if begun is None:
        return (yield from generator)
    # begin() has entered it; every later step does so itself.
    before: _regions.Region | None = None
    send: Callable[[], Any] = functools.partial(next, generator)
    try:
        while True:
            try:
                item = send()
            except StopIteration as stop:
                return stop.value
            _leave(begun, before)
            try:
                value = yield item
            except GeneratorExit:
                before = _regions.resume(begun)
                generator.close()
                raise
            except BaseException as error:
                before = _regions.resume(begun)
                send = functools.partial(generator.throw, error)
            else:
                before = _regions.resume(begun)
                send = functools.partial(next, generator) if value is None else functools.partial(generator.send, value)
    finally:
        _regions.end(begun)
        _regions.suspend(before)


def _leave(begun: _regions.Region, before: _regions.Region | None) -> None:
    if before is None:
        _regions.leave(begun)
    else:
        _regions.suspend(before)


class _Driven:
    """An awaitable in a region."""

    __slots__ = ("_await", "_definition", "_given")

    def __init__(self, start: Callable[[], Any], definition: _regions.Definition, given: tuple[Any, ...]) -> None:
        self._await, self._definition, self._given = start, definition, given

    def __await__(self) -> Generator[Any, Any, Any]:
        return _driven(self._await(), self._definition, self._given)


async def _driven_async(
    generator: AsyncGenerator[Any, Any], definition: _regions.Definition, given: tuple[Any, ...]
) -> AsyncGenerator[Any, Any]:
    """An asynchronous generator: each step is a region of its own, since its consumer's code runs in between."""
    step: Callable[[], Awaitable[Any]] = functools.partial(anext, generator)
    try:
        while True:
            try:
                item = await _Driven(step().__await__, definition, given)
            except StopAsyncIteration:
                return
            try:
                value = yield item
            except GeneratorExit:
                raise
            except BaseException as error:
                step = functools.partial(generator.athrow, error)
            else:
                step = functools.partial(generator.asend, value)
    finally:
        await generator.aclose()


def steps(
    items: Iterable[_T], name: str, category: str = "", *, epoch: int | None = None, first: int = 0
) -> Iterator[_T]:
    """The items, each wait for one in a region with its number, from `first` on, as its step."""
    definition = definition_of(name, category)
    iterator = iter(items)
    step = first
    while True:
        begun = _regions.begin(definition, epoch, step)
        try:
            item = next(iterator)
        except StopIteration:
            return
        finally:
            _regions.end(begun)
        yield item
        step += 1


def instant(name: str, category: str = "", *, epoch: int | None = None, step: int | None = None, **keys: Value) -> None:
    """Records that something happens now. Raises TagError when a key breaks the rules for tags."""
    _regions.instant(definition_of(name, category), epoch, step, encode_keys(keys))


def counter(name: str, value: float, category: str = "") -> None:
    """Records that the counter's value is `value` from now on."""
    _regions.counter(definition_of(name, category), value)
