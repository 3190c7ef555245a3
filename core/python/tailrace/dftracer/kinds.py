"""DFTracer's enumerations, constants and helpers, by the names and values that programs import (pydftracer 2.0.6).

Nothing here acts on import: DFTracer's own modules install handlers of signals and of logging.
"""

from __future__ import annotations

import inspect
import logging
import os
import sys
from collections.abc import Callable, Mapping
from enum import Enum, IntEnum, auto
from typing import Any, ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
TagValueTuple = tuple[int, int | float | str]
EntityID = int

DFTRACER_ENABLE_ENV = "DFTRACER_ENABLE"
DFTRACER_INIT_ENV = "DFTRACER_INIT"
DFTRACER_LOG_LEVEL_ENV = "DFTRACER_LOG_LEVEL"
DFTRACER_TIME_METRIC_ENV = "DFTRACER_TIME_METRIC"
DFTRACER_ENABLE = True
"""As programs ask DFTracer's modules whether there is a tracer."""
DFTRACER_INIT_PRELOAD = True
DFTRACER_LOG_LEVEL = os.environ.get(DFTRACER_LOG_LEVEL_ENV, "ERROR")
_LEVELS = {"DEBUG": logging.DEBUG, "INFO": logging.INFO, "WARN": logging.WARNING}

INIT_NAME, BLOCK_NAME, ITER_NAME, ITER_COUNT_NAME = "init", "block", "iter", "count"
START_METADATA_NAME, STOP_METADATA_NAME = "start", "end"
CTX_SEPARATOR = "."
ROOT_NAME = ROOT_CAT = "ai_root"
CAT_DYNAMO = "dynamo"


class TagType(Enum):
    """What DFTracer does with a value; all are keys here."""

    KEY = 0
    VALUE = 1
    IGNORE = 2

    def __int__(self) -> int:
        return self.value


class TagDType(Enum):
    """DFTracer's types of a value; a key is text here."""

    INT = 0
    FLOAT = 1
    STRING = 2

    def __int__(self) -> int:
        return self.value


class TagValue:
    """A value with DFTracer's types."""

    def __init__(self, value: Any, dtype: TagDType = TagDType.STRING, tag_type: TagType = TagType.KEY) -> None:
        convert: Callable[[Any], int | float | str] = {TagDType.INT: int, TagDType.FLOAT: float}.get(dtype, str)
        self._value = convert(value)
        self._tag_type = tag_type

    def value(self) -> TagValueTuple:
        """As `dftracer.log_event` takes it: the tag's type and the value."""
        return int(self._tag_type), self._value


class EntityStore(IntEnum):
    """Where an entity is."""

    MEMORY = 0
    GPU_MEMORY = 1
    LOCAL_DISK = 2
    PARALLEL_FS = 3
    BURST_BUFFER = 4
    OBJECT_STORE = 5
    DATABASE = 6
    NETWORK = 7
    OTHER = 8


class EntityRole(IntEnum):
    """What entities of a type are to the workflow."""

    UNKNOWN = 0
    INPUT = 1
    OUTPUT = 2
    INTERMEDIATE = 3
    PARAMETER = 4
    REFERENCE = 5


class EntityRelation(IntEnum):
    """Below 16 of an event to an entity, from 16 on of an entity to another."""

    USED = 0
    GENERATED = 1
    INVALIDATED = 2
    UPDATED = 3
    DERIVED_FROM = 16
    REVISION_OF = 17
    CONTAINS = 18
    PART_OF = 19
    SPECIALIZATION_OF = 20
    ALTERNATE_OF = 21
    DEPENDS_ON = 22


class StringEnum(str, Enum):
    """An enumeration whose values are its names in lower case."""

    @staticmethod
    def _generate_next_value_(name: str, start: int, count: int, last_values: list[Any]) -> str:
        return name.lower()

    def __str__(self) -> str:
        return str(self.value)


class ProfileCategory(StringEnum):
    """The categories of `ai`."""

    COMPUTE = auto()
    DATA = auto()
    DATALOADER = auto()
    COMM = auto()
    DEVICE = auto()
    CHECKPOINT = auto()
    PIPELINE = auto()
    OTHER = auto()


class ComputeEvent(StringEnum):
    """Of `ai.compute`."""

    FORWARD = auto()
    BACKWARD = auto()
    STEP = auto()


class DataEvent(StringEnum):
    """Of `ai.data`."""

    PREPROCESS = auto()
    ITEM = auto()


class DataLoaderEvent(StringEnum):
    """Of `ai.dataloader`."""

    FETCH = auto()


class CommunicationEvent(StringEnum):
    """Of `ai.comm`."""

    SEND = auto()
    RECEIVE = auto()
    BARRIER = auto()
    BCAST = auto()
    REDUCE = auto()
    ALL_REDUCE = auto()
    GATHER = auto()
    ALL_GATHER = auto()
    SCATTER = auto()
    REDUCE_SCATTER = auto()
    ALL_TO_ALL = auto()


class DeviceEvent(StringEnum):
    """Of `ai.device`."""

    TRANSFER = auto()


class CheckpointEvent(StringEnum):
    """Of `ai.checkpoint`."""

    CAPTURE = auto()
    RESTART = auto()


class PipelineEvent(StringEnum):
    """Of `ai.pipeline`."""

    EPOCH = auto()
    TRAIN = auto()
    EVALUATE = auto()
    TEST = auto()


class OtherEvent(StringEnum):
    """Of `ai.other`."""

    LOG = auto()


class IOEvent(StringEnum):
    """Of the `io` of data, checkpoint and other."""

    OPEN = auto()
    READ = auto()
    WRITE = auto()
    CLOSE = auto()


class ProfilerProtocol(Protocol):
    """What a tracer behind `dftracer` has."""

    def initialize(self, log_file: str | None = None, data_dirs: str | None = None, process_id: int = -1) -> None:
        """Begins tracing."""

    def get_time(self) -> int:
        """Microseconds."""

    def get_config(self, key: str) -> str:
        """A setting."""

    def enter_event(self) -> None:
        """Before an event."""

    def exit_event(self) -> None:
        """Behind it."""

    def log_event(
        self,
        name: str,
        cat: str,
        start_time: int,
        duration: int,
        int_args: Mapping[str, Any] | None = None,
        string_args: Mapping[str, Any] | None = None,
        float_args: Mapping[str, Any] | None = None,
        relations: Mapping[Any, list[int]] | None = None,
    ) -> None:
        """Writes an event."""

    def log_metadata_event(self, key: str, value: str) -> None:
        """Writes a fact."""

    def declare_entity(self, type: str, key: str, store: Any, uri: str) -> EntityID:
        """Names an entity."""

    def declare_entity_type(self, type: str, role: Any, description: str) -> None:
        """Describes a type of entities."""

    def relate_entities(self, relation: Any, subject: EntityID, object: EntityID) -> None:
        """Relates two entities."""

    def set_app_metadata_int(self, key: str, value: int) -> None:
        """A fact of the process."""

    def set_app_metadata_string(self, key: str, value: str) -> None:
        """A fact of the process."""

    def mark_used(self, name: str) -> None:
        """A part of the interface was used."""

    def finalize(self) -> None:
        """Ends tracing."""


class NoOpProfiler:
    """A tracer that does nothing: tailrace has no object of this kind."""

    def initialize(self, log_file: str | None = None, data_dirs: str | None = None, process_id: int = -1) -> None:
        """Does nothing."""

    def get_time(self) -> int:
        """0."""
        return 0

    def get_config(self, key: str) -> str:
        """Nothing."""
        return ""

    def declare_entity(self, type: str, key: str, store: Any, uri: str) -> EntityID:
        """No entity."""
        return 0

    def _ignore(self, *_: object, **__: object) -> None:
        """Does nothing."""

    enter_event = exit_event = log_event = log_metadata_event = finalize = mark_used = _ignore
    declare_entity_type = relate_entities = set_app_metadata_int = set_app_metadata_string = _ignore


profiler: Any = NoOpProfiler()
logger = logging.getLogger("DFTRACER")


def get_iter_block_name(name: str) -> str:
    """The name of an item's use in a loop."""
    return _with_end(name, BLOCK_NAME)


def get_iter_handle_name(name: str) -> str:
    """The name of the wait for an item in a loop."""
    return _with_end(name, ITER_NAME)


def _with_end(name: str, end: str) -> str:
    return name if name.endswith(CTX_SEPARATOR + end) else f"{name}{CTX_SEPARATOR}{end}"


def get_time_scale() -> float:
    """Units of `dftracer.get_time` in a second."""
    return 1e6


def get_default_args(func: Callable[..., Any]) -> dict[str, Any]:
    """The parameters of a function that have a default."""
    found = inspect.signature(func).parameters.items()
    return {name: one.default for name, one in found if one.default is not inspect.Parameter.empty}


def capture_signal(signal_number: int, frame: Any) -> None:
    """A handler of signals that ends the program. Nothing installs it here."""
    sys.exit(signal_number)


def setup_logger(name: str, log_file: str, formatter: str, level: int = logging.INFO) -> logging.Logger:
    """A logger that writes to a file."""
    return _handled(name, logging.FileHandler(log_file), formatter, level)


def setup_stream_logger() -> logging.Logger:
    """`logger`, with a handler that writes to stderr."""
    level = _LEVELS.get(DFTRACER_LOG_LEVEL, logging.ERROR)
    return _handled("DFTRACER", logging.StreamHandler(), "[%(levelname)s] %(message)s", level)


def _handled(name: str, handler: logging.Handler, form: str, level: int) -> logging.Logger:
    handler.setFormatter(logging.Formatter(form))
    found = logging.getLogger(name)
    found.setLevel(level)
    found.addHandler(handler)
    return found
