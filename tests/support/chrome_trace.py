"""A strict reader of Chrome's trace events, as `tailrace export --to perfetto` writes them."""

from __future__ import annotations

import json
from typing import Any


class Timeline:
    """A strict reader of Chrome's trace events: what Perfetto's importer requires of X, M, s and f."""

    def __init__(self, text: str) -> None:
        data = json.loads(text)
        assert data["displayTimeUnit"] == "ns"
        self.slices: list[dict[str, Any]] = []
        self.names: dict[Any, str] = {}
        self.counters: dict[str, list[tuple[float, float]]] = {}
        self.instants: list[dict[str, Any]] = []
        self.flows: dict[int, dict[str, dict[str, Any]]] = {}
        for event in data["traceEvents"]:
            getattr(self, f"_take_{event['ph']}")(event)
        assert {event["pid"] for event in self.slices} <= set(self.names)
        assert {(event["pid"], event["tid"]) for event in self.slices} <= set(self.names)
        self._check_nesting()

    def _take_X(self, event: dict[str, Any]) -> None:
        assert event["dur"] >= 0
        assert isinstance(event["name"], str)
        self.slices.append(event)

    def _take_C(self, event: dict[str, Any]) -> None:
        (value,) = event["args"].values()
        assert value >= 0
        series = self.counters.setdefault(event["name"], [])
        assert not series or series[-1][0] < event["ts"], "a counter goes forward in time"
        series.append((event["ts"], value))

    def _take_i(self, event: dict[str, Any]) -> None:
        assert event["s"] == "t"
        self.instants.append(event)

    def _take_M(self, event: dict[str, Any]) -> None:
        if event["name"] == "process_name":
            self.names[event["pid"]] = event["args"]["name"]
        if event["name"] == "thread_name":
            assert (event["pid"], event["tid"]) not in self.names
            self.names[event["pid"], event["tid"]] = event["args"]["name"]

    def _take_flow(self, event: dict[str, Any]) -> None:
        around = self.slices[-1]  # a flow binds to the slice that encloses it on its track
        assert (around["pid"], around["tid"], around["ts"]) == (event["pid"], event["tid"], event["ts"])
        ends = self.flows.setdefault(event["id"], {})
        assert event["ph"] not in ends
        assert (event["ph"] == "f") == (event.get("bp") == "e")
        ends[event["ph"]] = {**event, "slice": around}

    _take_s = _take_f = _take_flow

    def _check_nesting(self) -> None:
        """Slices of one track lie inside each other or apart."""
        tracks: dict[Any, list[dict[str, Any]]] = {}
        for event in self.slices:
            tracks.setdefault((event["pid"], event["tid"]), []).append(event)
        for events in tracks.values():
            open_until: list[float] = []
            for event in sorted(events, key=lambda e: (e["ts"], -e["dur"])):
                while open_until and open_until[-1] <= event["ts"] + 1e-6:
                    open_until.pop()
                assert not open_until or event["ts"] + event["dur"] <= open_until[-1] + 1e-6
                open_until.append(event["ts"] + event["dur"])
