"""The files of a run directory, read without tailrace's code."""

import gzip
import json
import os
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

from support import reader

Line = dict[str, Any]


class Trace:
    """A run's events by gzip and json alone, completed as the format says; `path` and `path2` are from the file table.

    only: the names of the events to read, of a run that has a million of others.
    """

    def __init__(self, run_dir: str | os.PathLike[str], only: Collection[str] = ()) -> None:
        self.run_dir = Path(run_dir)
        self.events: list[Line] = []
        self.paths: dict[str, str] = {}
        self.processes: dict[int, Line] = {}
        for file in sorted((self.run_dir / "trace").glob("*.pfw.gz")):
            with gzip.open(file, "rt", encoding="utf-8") as lines:
                for line in lines:
                    if not only or _name(line) in {"FH", *only}:
                        self._take(json.loads(line))
        for event in self.events:
            args = event["args"]
            event["path"] = self.paths.get(args.get("fhash"))
            event["path2"] = self.paths.get(args.get("fhash2"))

    def _take(self, line: Line) -> None:
        if line["ph"] == "X":
            self.events.append({**line, "args": reader.complete(line)})
            if line["name"] == "start":
                self.processes[line["pid"]] = line["args"]
        elif line["name"] == "FH":
            self.paths[line["args"]["value"]] = line["args"]["name"]

    def of(self, path: str | os.PathLike[str], names: Collection[str] | None = None) -> list[Line]:
        """The events on `path` (either file of a two-file call), of the calls `names` where given."""
        wanted = os.path.realpath(path)
        return [
            event
            for event in self.events
            if wanted in (event["path"], event["path2"]) and (names is None or event["name"] in names)
        ]

    def tags(self, events: Iterable[Line], *keys: str) -> set[tuple[Any, ...]]:
        """The distinct tuples of these tags' values among `events`; None where a tag is not set."""
        return {tuple(event["args"].get(key) for key in keys) for event in events}


def _name(line: str) -> str:
    """The name of an event, without the parsing of its line."""
    return line.partition('"name":"')[2].partition('"')[0]


def read_declared(run_dir: str | os.PathLike[str]) -> list[Line]:
    """The declared lines of a run, in the order of each writer."""
    files = sorted((Path(run_dir) / "declared").glob("*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]
