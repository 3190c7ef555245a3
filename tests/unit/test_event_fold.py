"""From events to the edge table, against a plain loop over the events without codes and keys."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.flowcase import T0_NS, frame
from tailrace import _native
from tailrace.analyzer.edges import edge_table, event_fold

US = 1000
CALLS = st.sampled_from(
    [
        *[{"name": "read", "dir": "r"}, {"name": "write", "dir": "w"}, {"name": "sendfile", "dir": "rw"}],
        *[{"name": "open", "flags": 0o1101}, {"name": "open", "flags": 0}, {"name": "creat"}, {"name": "truncate"}],
        *[
            {"name": "mmap", "cat": "MMAP", "prot": 3, "flags": 1},
            {"name": "mmap", "cat": "MMAP", "prot": 3, "flags": 2},
        ],
        *[{"name": "munmap", "cat": "MMAP", "prot": 3, "flags": 1}, {"name": "unlink"}, {"name": "rename"}],
        *[{"name": "link"}, {"name": "fork", "cat": "PROCESS"}, {"name": "wait", "cat": "PROCESS"}],
        *[{"name": "fread", "dir": "r", "cat": "STDIO"}, {"name": "fwrite", "dir": "w", "cat": "STDIO"}],
        *[{"name": "read", "dir": "r", "cat": "MPIIO"}, {"name": "getline", "dir": "r", "cat": "LIBC"}],
        {"name": "memcpy", "cat": "GPU"},
    ]
)
UPPER = ("MPIIO", "GPU")
FILES = st.sampled_from([None, "a", "b", "c"])
PATHS = st.sampled_from([None, "/a", "/b", "/x/b.pyc"])
OPTIONAL = {"offset": st.integers(0, 50), "size": st.integers(0, 20), "count": st.integers(0, 20)}
EVENTS = st.fixed_dictionaries(
    {
        "call": CALLS,
        "file": FILES,
        "file2": FILES,
        "path": PATHS,
        "path2": PATHS,
        "ftype": st.sampled_from(["reg", "fifo", None]),
        "at": st.integers(0, 200),
        "dur": st.integers(0, 20),
        "ret": st.integers(-1, 3),
        "errno": st.sampled_from([None, None, None, 0, 2]),
        "calls": st.sampled_from([None, 1, 7]),
        "host": st.sampled_from(["n1", "n2"]),
        "pid": st.sampled_from([1, 2, 2**31 - 1]),
        "start": st.sampled_from([None, "", "a", "1b"]),
        **{tag: st.sampled_from([None, "", "x", "y"]) for tag in ("workflow", "stage", "task")},
        **{name: st.one_of(st.none(), values) for name, values in OPTIONAL.items()},
    }
)


def row(drawn: dict[str, Any]) -> dict[str, Any]:
    values = {"cat": "POSIX", **{name: value for name, value in drawn.items() if name not in ("call", "at", "dur")}}
    return {**values, **drawn["call"], "ts": T0_NS + drawn["at"] * US, "dur": drawn["dur"] * US}


def who(event: dict[str, Any]) -> tuple[Any, ...]:
    return (*(event[tag] or "" for tag in edge_table.WHO[:3]), event["host"], event["pid"], event["start"] or "")


def succeeded(event: dict[str, Any]) -> bool:
    return not event["errno"] and not (event["name"] in ("unlink", "rename", "link") and event["ret"] < 0)


def accesses(event: dict[str, Any]) -> list[tuple[Any, ...]]:
    """(file, way, bytes, calls, mapped bytes) of one event, as docs and `_accesses` say it."""
    name, cat, way, size, calls = event["name"], event["cat"], event.get("dir"), event["size"] or 0, event["calls"]
    calls = 1 if calls is None else calls
    if cat in UPPER or not succeeded(event):
        return []
    out = []
    if way in ("r", "rw"):
        out.append((event["file"], edge_table.READ, size, calls, 0))
    if way == "w":
        out.append((event["file"], edge_table.WRITE, size, calls, 0))
    if way == "rw":
        out.append((event["file2"] or event["file"], edge_table.WRITE, size, calls, 0))
    cut = (name == "open" and event.get("flags")) or name == "creat" or (name == "truncate" and event["offset"] == 0)
    if cut:
        out.append((event["file"], edge_table.WRITE, 0, 0, 0))
    if cat == "MMAP" and event["ftype"] == "reg":
        mapped = event["count"] or 0
        if name == "mmap":
            out.append((event["file"], edge_table.READ, 0, calls, mapped))
        if event["flags"] == 1:
            out.append((event["file"], edge_table.WRITE, 0, calls, mapped))
    return [access for access in out if access[0]]


def wanted_edges(events: list[dict[str, Any]]) -> dict[Any, list[int]]:
    found: dict[Any, list[int]] = {}
    for event in events:
        for file, way, size, calls, mapped in accesses(event):
            first, last = event["ts"], event["ts"] + event["dur"]
            sums = found.setdefault((who(event), file, "r" if way == edge_table.READ else "w"), [0, 0, 0, first, last])
            for place, value in enumerate((size, calls, mapped)):
                sums[place] += value
            sums[3:] = [min(sums[3], first), max(sums[4], last)]
    return found


def wanted_counts(events: list[dict[str, Any]]) -> dict[Any, Counter[str]]:
    found: dict[Any, Counter[str]] = defaultdict(Counter)
    for event in events:
        way, cat, calls = event.get("dir", ""), event["cat"], event["calls"]
        kind = {"r": "read", "w": "write", "rw": "write"}.get(way, "metadata")
        # A GPU has no files.
        cell = found[who(event), "stream" if event["ftype"] == "fifo" and cat != "GPU" else kind]
        if cat in (*UPPER, "PROCESS"):
            continue
        size = (event["size"] or 0) if succeeded(event) else 0
        moved = {"read_bytes": size * ("r" in way), "written_bytes": size * ("w" in way)}
        unnamed = not event["file"] or (way == "rw" and not event["file2"])
        calls = 1 if calls is None else calls
        cell.update(moved, calls=calls, failed=not succeeded(event), buffered_calls=calls * (cat == "STDIO"))
        cell["unnamed_bytes"] += sum(moved.values()) * (unnamed and cat != "LIBC")
    return found


def wanted_facts(events: list[dict[str, Any]]) -> set[tuple[Any, ...]]:
    found = set()
    for event in events:
        name, file, path = event["name"], event["file"], event["path"] or ""
        opens = name in ("open", "creat")
        if opens and not succeeded(event) and path.endswith(".pyc"):
            found.add((who(event), "", "missed", path, "", 0))
        elif not succeeded(event) or not file:
            continue
        elif name in ("rename", "link"):
            found.add((who(event), file, name, path, event["path2"] or "", event["ts"]))
        elif name == "unlink":
            found.add((who(event), file, name, path, "", event["ts"]))
        elif opens and (name == "creat" or event["flags"]):
            found.add((who(event), file, "create", path, "", event["ts"]))
    return found


def names(events: list[dict[str, Any]]) -> dict[Any, tuple[int, int]]:
    seen: dict[Any, list[int]] = defaultdict(list)
    for event in events:
        for file, path in ((event["file"], event["path"]), (event["file2"], event["path2"])):
            if file:
                seen[file, path or ""].append(event["ts"] + (event["dur"] if event["cat"] in UPPER else 0))
        if event["name"] in ("rename", "link") and succeeded(event) and event["file"] and event["path2"]:
            seen[event["file"], event["path2"]].append(event["ts"] + 1)
    return {key: (min(times), max(times)) for key, times in seen.items()}


@pytest.mark.parametrize("dtype", ["category", "string"])
@settings(max_examples=40, deadline=None)
@given(drawn=st.lists(EVENTS, min_size=1, max_size=25), cut=st.integers(0, 25))
def test_the_table_holds_what_a_loop_over_the_events_finds(dtype: str, drawn: list[dict[str, Any]], cut: int) -> None:
    events = [row(one) for one in drawn]
    texts = dict.fromkeys((name for name in event_fold.TEXTS if name != "pieces"), dtype)
    parts = [event_fold.chunk(frame(part).astype(texts)) for part in (events[:cut], events[cut:])]
    table = edge_table.combine(parts)
    actors = [tuple(values) for values in table.who.itertuples(index=False)]
    files = [*table.files["file"], ""]

    edges = edge_table.frame(table)
    sums = edges[["bytes", "calls", "mapped_bytes", "first_ns", "last_ns"]].to_numpy().tolist()
    keys = zip(edges[edge_table.WHO].itertuples(index=False, name=None), edges["file"], edges["direction"], strict=True)
    assert dict(zip(keys, sums, strict=True)) == wanted_edges(events)

    counts = {(actors[c.who], edge_table.CALLS[c.kind]): c for c in table.counts.itertuples()}
    wanted = wanted_counts(events)
    assert set(counts) == set(wanted)
    for key, cell in wanted.items():
        assert {name: getattr(counts[key], name) for name in edge_table.COUNT_SUMS} == {
            n: cell[n] for n in edge_table.COUNT_SUMS
        }

    facts = [
        (actors[f.who], files[f.file], f.what, f.path, f.path2, f.first_ns if f.what != "missed" else 0)
        for f in table.facts.itertuples()
    ]
    assert len(facts) == len(set(facts)) and set(facts) == wanted_facts(events)

    process_events = Counter((actors[k.who], k.what, k.pid, k.ns) for k in table.process_events.itertuples())
    born = [e for e in events if e["cat"] == "PROCESS" and succeeded(e) and e["ret"] > 0]
    ends = {"fork": 0, "wait": 1}
    assert process_events == Counter((who(e), e["name"], e["ret"], e["ts"] + e["dur"] * ends[e["name"]]) for e in born)

    spans = {(files[a.file], a.path): (a.first_ns, a.last_ns) for a in table.aliases.itertuples()}
    assert spans == names(events) and len(spans) == len(table.aliases)


def test_only_actor_and_time_columns_are_required() -> None:
    bare = pd.DataFrame({"name": ["read"], "ts": [T0_NS], "dur": [US], "pid": [1]})
    table = event_fold.chunk(bare)
    assert (len(table.who), len(table.files), len(table.bursts)) == (1, 0, 0)


def test_names_and_categories_have_the_cores_meaning() -> None:
    bit = _native.bits()
    names, categories = event_fold.MEANINGS["name"], event_fold.MEANINGS["cat"]
    assert names["creat"] == bit["opens"] | bit["makes"] | bit["creat"]
    assert names["wait"] == bit["reaps"] | bit["waits"]
    assert names["read"] == names["close"] == 0
    assert categories["POSIX"] == 0
    assert categories["GPU"] == categories["APP"] > bit["upper"] | bit["not_io"]
    assert categories["HDF5"] == categories["NETCDF"] == bit["upper"] | bit["not_io"]
    assert {category for _, _, category in _native.hooks()} <= set(categories)
    assert {name for _, name, _ in _native.hooks()} <= set(names)


@pytest.mark.parametrize(("other", "hook"), event_fold.SYNONYMS.items())
def test_another_tracers_name_has_the_hooks_meaning(other: str, hook: str) -> None:
    assert other not in _native.meanings()[0]
    assert event_fold.MEANINGS["name"][other] == event_fold.MEANINGS["name"][hook] != 0
