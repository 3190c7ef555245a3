"""OpenTelemetry's spans as regions (tailrace.regions): the program keeps its instrumentation.

    from opentelemetry import trace
    from tailrace.opentelemetry import RegionProcessor

    trace.get_tracer_provider().add_span_processor(RegionProcessor())

Each span that is sampled is a region from its start to its end, below the region of its parent span. Calls carry its
path while it is the current span (`start_as_current_span`, `use_span`, `context.attach`) of the thread, task or
coroutine that makes them. Its category is the tracer's name, or the attribute `tailrace.category` that it begins with;
attributes `epoch` and `step` are the region's where they are whole numbers, others are its keys, as are `trace_id` and
`span_id`. Its times are those of the calls; others, which the program gave it, are keys. Not kept: events and links.

In an untraced process a span costs a call that does nothing.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from opentelemetry import context as context_api
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor

from tailrace import _regions, asyncio_regions, region_keys
from tailrace.errors import TagError
from tailrace.regions import definition_of, encode_keys

if TYPE_CHECKING:
    from opentelemetry.context.context import Context
    from opentelemetry.sdk.trace import Span

CATEGORY = "tailrace.category"
"""The attribute with a span's category."""

_LATE_NS = 10_000_000
"""A span that says to have begun or ended longer ago was given its time."""

_Arguments = tuple[int | None, int | None, bytes | None]
"""Epoch, step and keys of a region."""

_open: dict[tuple[int, int], tuple[_regions.Region, dict[str, int], dict[str, Any], _Arguments]] = {}
"""Of each span that has not ended, by its numbers: its region, the time it was given, its attributes at its start, and
what the region has of them."""


class RegionProcessor(SpanProcessor):  # type: ignore[misc,unused-ignore]
    """Makes each span a region. One is enough, whatever the number of providers; a second one does nothing."""

    def __init__(self) -> None:
        if _regions.find():
            encode_keys({"first": 1})  # loads what it needs, which would be time of the first span
            _follow_context()
            asyncio_regions.follow()

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Begins the span's region; the thread stays where it is until the span is its current one."""
        number = _number(span.context)
        if number in _open:
            return
        scope = span.instrumentation_scope
        category = str((span.attributes or {}).get(CATEGORY) or (scope.name if scope else ""))
        given = _given_time("begin_ns", span.start_time)
        arguments = _arguments(span, given)
        region = _regions.start(definition_of(span.name, category), _parent(parent_context), *arguments)
        if region is not None:
            _open[number] = region, given, dict(span.attributes or {}), arguments

    def on_end(self, span: ReadableSpan) -> None:
        """Ends its region, with the attributes that it has now."""
        found = _open.pop(_number(span.context), None)
        if found is None:
            return
        region, given, attributes, arguments = found
        late = _given_time("end_ns", span.end_time)
        if late or span.status.status_code is trace.StatusCode.ERROR or dict(span.attributes or {}) != attributes:
            arguments = _arguments(span, {**given, **late})
        _regions.finish(region, *arguments)


def _given_time(key: str, at_ns: int | None) -> dict[str, int]:
    """The time of a span that was not begun or ended now, as a key: its region has the time of the call."""
    return {key: at_ns} if at_ns is not None and abs(time.time_ns() - at_ns) > _LATE_NS else {}


def _number(context: trace.SpanContext | None) -> tuple[int, int]:
    return (context.trace_id, context.span_id) if context else (0, 0)


def _parent(context: Context | None) -> Any:
    """What `_regions.start` takes: None where the span is below what this code is in."""
    current = trace.get_current_span()
    parent = trace.get_current_span(context) if context is not None else current
    if parent is current:
        return None
    # A span of another process is no region of this one.
    return _open.get(_number(parent.get_span_context()), (False,))[0]


def _arguments(span: ReadableSpan, given: dict[str, int]) -> _Arguments:
    """Epoch, step and keys, as many as there is room for; the attributes set last stay."""
    attributes = {key: value for key, value in (span.attributes or {}).items() if key != CATEGORY}
    own: dict[str, Any] = {**given}
    if span.context:
        own |= {"trace_id": f"{span.context.trace_id:032x}", "span_id": f"{span.context.span_id:016x}"}
    if span.status.status_code is trace.StatusCode.ERROR:
        own["status"] = f"error {span.status.description or ''}".strip()
    found = region_keys.of_any({**attributes, **own})
    epoch, step = found.pop("epoch", None), found.pop("step", None)
    try:
        return epoch, step, encode_keys(found)
    except TagError:  # a word of tailrace's own, or no room for all
        pass
    words: dict[str, Any] = {}
    for key, value in reversed(found.items()):
        try:
            encode_keys({**words, key: value})
        except TagError:
            continue
        words[key] = value
    return epoch, step, encode_keys(words)


class _Token:
    """What `detach` takes: the runtime context's own, and where the thread was."""

    __slots__ = ("before", "own")

    def __init__(self, own: Any, before: _regions.Region | None) -> None:
        self.own, self.before = own, before


class _FollowedContext:
    """OpenTelemetry's runtime context, with the thread in the region of the span that is current."""

    def __init__(self, own: Any) -> None:
        self._own = own

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)

    def get_current(self) -> Any:
        return self._own.get_current()

    def attach(self, context: Context) -> Any:
        before = None
        span = trace.get_current_span(context)
        # The same span with other baggage: a region inside it goes on.
        if span is not trace.get_current_span(self._own.get_current()):
            found = _open.get(_number(span.get_span_context()))
            before = _regions.resume(found[0]) if found is not None else None
        return _Token(self._own.attach(context), before)

    def detach(self, token: Any) -> None:
        if not isinstance(token, _Token):  # of before
            self._own.detach(token)
            return
        try:
            self._own.detach(token.own)
        finally:
            if token.before is not None:
                _regions.suspend(token.before)


def _follow_context() -> None:
    # OpenTelemetry has no other place that learns which span is current: processors hear of starts and ends. Its own
    # way, a class that the variable OTEL_PYTHON_CONTEXT names, is too late once the package is imported.
    # Rejected: the span that the thread started last, which is false for one that is handed on or ended elsewhere.
    context_api.get_current()  # older versions make it at its first use
    if not isinstance(context_api._RUNTIME_CONTEXT, _FollowedContext):
        context_api._RUNTIME_CONTEXT = _FollowedContext(context_api._RUNTIME_CONTEXT)
