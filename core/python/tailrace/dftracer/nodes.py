"""DFTracer's `ai`: a tree of annotations for training, each a decorator, a context manager and a loop's iterator."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from typing import Any, TypeVar

from tailrace.dftracer import kinds
from tailrace.dftracer.events import arguments_of, dft_fn, dftracer
from tailrace.dftracer.kinds import CTX_SEPARATOR, ProfileCategory
from tailrace.regions import region

_T = TypeVar("_T")


class DFTracerAI:
    """A node of `ai`: a decorator, a context manager, and `iter`; `start` and `stop` begin and end an event by hand."""

    def __init__(
        self,
        *,
        cat: str,
        name: str | None = None,
        epoch: int | None = None,
        step: int | None = None,
        image_idx: int | None = None,
        image_size: Any = None,
        enable: bool = True,
    ) -> None:
        self.cat, self.name = str(cat), str(name or cat)
        given = {"epoch": epoch, "step": step, "image_idx": image_idx, "image_size": image_size}
        self._arguments: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
        self._enabled = enable
        self._begun: list[region] = []
        self._children: dict[str, DFTracerAI] = {}

    @property
    def profiler(self) -> dft_fn:
        """An event of this node's name and arguments."""
        made = dft_fn(self.cat, self.name, enable=self._enabled)
        return made.update(args=self._arguments)

    def create_children(self, names: Mapping[str, str]) -> None:
        """Adds nodes below this one, as attributes: attribute -> name of the event."""
        for attribute, name in names.items():
            self._add(attribute, self._made(str(name)))

    def _add(self, attribute: str, child: DFTracerAI) -> DFTracerAI:
        setattr(self, attribute, child)
        self._children[attribute] = child
        return child

    def _made(self, name: str, arguments: Mapping[str, Any] | None = None, enabled: bool | None = None) -> DFTracerAI:
        made = DFTracerAI(cat=self.cat, name=name, enable=self._enabled if enabled is None else enabled)
        made._arguments.update(self._arguments if arguments is None else arguments)
        return made

    def __getattr__(self, name: str) -> DFTracerAI:
        # What create_children() and derive() have made are attributes; this is for those who check types.
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __call__(self, fn: Any = None, *, enable: bool | None = None, args: Any = None, **arguments: Any) -> Any:
        given = {**arguments, **(args or {})}
        more = {**self._arguments, **{name: value for name, value in given.items() if value is not None}}
        enabled = self._enabled if enable is None else enable
        if fn is None:
            return self._made(self.name, more, enabled)
        return region(self.name, self.cat, **arguments_of(more))(fn) if enabled else fn

    def init(self, fn: Any = None, **arguments: Any) -> Any:
        """The same for the `__init__` of what the node is about."""
        return self._made(f"{self.name}{CTX_SEPARATOR}{kinds.INIT_NAME}")(fn, **arguments)

    def derive(self, name: str) -> DFTracerAI:
        """A node below this one."""
        whole = f"{self.name}{CTX_SEPARATOR}{name}"
        if whole not in self._children:
            self._children[whole] = self._made(whole)
        return self._children[whole]

    def __enter__(self) -> DFTracerAI:
        if self._enabled:
            self._begun.append(region(self.name, self.cat, **arguments_of(self._arguments)).__enter__())
        return self

    def __exit__(self, *error: Any) -> None:
        if self._begun:
            self._begun.pop().__exit__(*error)

    def start(self, metadata: bool = False) -> None:
        """Begins an event; metadata: only says so."""
        if metadata:
            self._tell(kinds.START_METADATA_NAME)
        else:
            self.__enter__()

    def stop(self, metadata: bool = False) -> None:
        """Ends it."""
        if metadata:
            self._tell(kinds.STOP_METADATA_NAME)
        else:
            self.__exit__(None, None, None)

    def _tell(self, what: str) -> None:
        if self._enabled:
            key = f"{self.name}{CTX_SEPARATOR}{what}"
            dftracer.get_instance().log_metadata_event(key, str(self.get_time()))

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

    def update(self, *, args: Mapping[str, Any] | None = None, **arguments: Any) -> DFTracerAI:
        """Adds arguments to this node's events and those below it."""
        more = {name: value for name, value in {**arguments, **(args or {})}.items() if value is not None}
        self._arguments.update(more)
        for child in self._children.values():
            child.update(**more)
        if self._begun:
            self._begun[-1].update(**arguments_of(more))
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
        wait = iter_name or kinds.get_iter_handle_name(self.name)
        use = block_name or kinds.get_iter_block_name(self.name)
        items, count = iter(iterator), 1
        while True:
            numbered = {**self._arguments, kinds.ITER_COUNT_NAME: count}
            try:
                with _if(include_iter and self._enabled, wait, self.cat, numbered):
                    item = next(items)
            except StopIteration:
                return
            with _if(include_block and self._enabled, use, self.cat, numbered):
                yield item
            count += 1


class _if:
    """A region, or none."""

    def __init__(self, wanted: bool, name: str, category: str, arguments: Mapping[str, Any]) -> None:
        self._region = region(name, category, **arguments_of(arguments)) if wanted else None

    def __enter__(self) -> None:
        if self._region is not None:
            self._region.__enter__()

    def __exit__(self, *error: Any) -> None:
        if self._region is not None:
            self._region.__exit__(*error)


class IO(DFTracerAI):
    """The `io` of a category: open, read, write, close."""

    def __init__(self, *, cat: str, parent_name: str, **arguments: Any) -> None:
        name = f"{parent_name}{CTX_SEPARATOR}io"
        super().__init__(cat=cat, name=name, **arguments)
        self.create_children({event.value: f"{name}{CTX_SEPARATOR}{event}" for event in kinds.IOEvent})


class _Category(DFTracerAI):
    """A category of `ai` with its events."""

    _CATEGORY: ProfileCategory
    _EVENTS: type[kinds.StringEnum]
    _HAS_IO = False

    def __init__(
        self,
        epoch: int | None = None,
        step: int | None = None,
        image_idx: int | None = None,
        image_size: Any = None,
        enable: bool = True,
    ) -> None:
        category = str(self._CATEGORY)
        given = {"epoch": epoch, "step": step, "image_idx": image_idx, "image_size": image_size, "enable": enable}
        super().__init__(cat=category, **given)
        self.create_children({event.value: self._name_of(event) for event in self._EVENTS})
        if self._HAS_IO:
            self._add("io", IO(cat=category, parent_name=category, **given))

    def _name_of(self, event: kinds.StringEnum) -> str:
        return str(event)


class Compute(_Category):
    """`ai.compute`."""

    _CATEGORY, _EVENTS = ProfileCategory.COMPUTE, kinds.ComputeEvent


class Data(_Category):
    """`ai.data`."""

    _CATEGORY, _EVENTS, _HAS_IO = ProfileCategory.DATA, kinds.DataEvent, True


class DataLoader(_Category):
    """`ai.dataloader`."""

    _CATEGORY, _EVENTS = ProfileCategory.DATALOADER, kinds.DataLoaderEvent


class Communication(_Category):
    """`ai.comm`."""

    _CATEGORY, _EVENTS = ProfileCategory.COMM, kinds.CommunicationEvent


class Device(_Category):
    """`ai.device`."""

    _CATEGORY, _EVENTS = ProfileCategory.DEVICE, kinds.DeviceEvent


class Checkpoint(_Category):
    """`ai.checkpoint`."""

    _CATEGORY, _EVENTS, _HAS_IO = ProfileCategory.CHECKPOINT, kinds.CheckpointEvent, True


class Pipeline(_Category):
    """`ai.pipeline`."""

    _CATEGORY, _EVENTS = ProfileCategory.PIPELINE, kinds.PipelineEvent


class Other(_Category):
    """`ai.other`."""

    _CATEGORY, _EVENTS, _HAS_IO = ProfileCategory.OTHER, kinds.OtherEvent, True

    def _name_of(self, event: kinds.StringEnum) -> str:
        return f"{self._CATEGORY}{CTX_SEPARATOR}{event}"


class AI(DFTracerAI):
    """The root of the tree."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__(cat=kinds.ROOT_CAT, name=kinds.ROOT_NAME, **arguments)
        for made in (Compute, Data, DataLoader, Communication, Device, Checkpoint, Pipeline, Other):
            child = made(**arguments)
            self._add(child.cat, child)


ai = AI()
comm, compute, data, dataloader = ai.comm, ai.compute, ai.data, ai.dataloader
device, checkpoint, pipeline = ai.device, ai.checkpoint, ai.pipeline
