"""Corrupts copies of runs at random and asks them everything: is each answer right, or said to be incomplete?

    python -m support.corruption --rounds 1000        (in tests/; prints kind x outcome, exit code 1 if any is bad)

The runs are real ones (`make_runs`): a node file that three launchers' sealers continued, one with the lines of totals,
one compacted, and another tracer's trace, of which the converted copy in the user's cache is damaged.

Outcomes: `right`, the answers are those of the whole run; `said`, they differ, and `run.problems`, or the coverage of a
process, says that something is missing; `refused`, a TailraceError. `silent` and `traceback` are faults.

Damage to headers, lines, files and blocks is `said`, as are a spoiled account, run.json, manifest, description or
declared file. Blocks and files that were copied, swapped or shuffled are `right`, since a block is known by its
process, segment and place; so is a damaged catalogue or converted copy, which is made anew.
"""

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

import tailrace
from support import commands, reader
from tailrace.analyzer import summary
from tailrace.analyzer.store import headers
from tailrace.analyzer.store.processes import PROCESS
from tailrace.errors import TailraceError

FAULTS = ("silent", "traceback")
OUTCOMES = ("right", "said", "refused", *FAULTS)
DATA = Path(__file__).parents[1] / "data"
Random = random.Random

_COMMANDS = {
    "a": ("sh", "-c", "seq 300 > a.txt; cat a.txt | sort -r > b.txt; wc -l b.txt > c.txt"),
    "b": (
        "python3",
        "-c",
        "import os; file = os.open('d.txt', os.O_RDWR | os.O_CREAT)\n"
        "for number in range(5000): os.write(file, b'x' * (number % 7))",
    ),
    "c": ("sh", "-c", "cat c.txt d.txt > e.txt"),
}
_DECLARED = (
    {"type": "workflow", "workflow": "w", "manager": "parsl", "version": "1", "t_ns": 1, "config": {}},
    {
        "type": "task",
        "workflow": "w",
        "task": "0",
        "stage": "a",
        "kind": "bash",
        "deps": [],
        "inputs": [],
        "outputs": [],
    },
    {"type": "try", "workflow": "w", "task": "0", "try": 0, "t_launch_ns": 2},
    {"type": "end", "workflow": "w", "task": "0", "t_end_ns": 3, "status": "done", "tries": 1},
)


# ---- the runs ----


def make_runs(place: Path) -> dict[str, Path]:
    """The runs to damage, by name."""
    runs = {name: place / name for name in ("full", "totals", "compacted", "foreign")}
    work = place / "work"
    work.mkdir()
    for name, detail in (("full", "full"), ("totals", "totals")):
        for stage, command in _COMMANDS.items():
            options = ("-q", "-o", runs[name], "--detail", detail, "--tag", f"stage={stage}")
            words = [*commands.TAILRACE, "run", *options, "--", *command]
            subprocess.run([str(word) for word in words], cwd=work, check=True)
        known = json.loads((runs[name] / "run.json").read_bytes())
        (runs[name] / "hosts").mkdir(exist_ok=True)
        host = {**{key: known[key] for key in ("boot_id", "mounts")}, "host": "other"}
        (runs[name] / "hosts" / "other.json").write_text(json.dumps(host), encoding="utf-8")
        (runs[name] / "declared").mkdir(exist_ok=True)
        declared = "".join(json.dumps(line) + "\n" for line in _DECLARED)
        (runs[name] / "declared" / "parsl-other-1-1.jsonl").write_text(declared, encoding="utf-8")
    shutil.copytree(runs["full"], runs["compacted"])
    subprocess.run([*commands.TAILRACE, "compact", str(runs["compacted"])], check=True, capture_output=True)
    # As deep as the copies lie, so that both have the same place in the cache.
    shutil.copytree(DATA / "dftracer" / "us", runs["foreign"])
    return runs


# ---- the kinds of damage ----


def _trace(run: Path, rng: Random) -> Path:
    return rng.choice(sorted((run / "trace").iterdir()))


def _blocks(path: Path) -> list[bytes]:
    data = path.read_bytes()
    return [data[offset : offset + length] for offset, length, _ in reader.scan_blocks(str(path))[0]]


def _flip(path: Path, low: int, high: int, rng: Random) -> None:
    data = bytearray(path.read_bytes())
    if high > low:
        data[rng.randrange(low, high)] ^= 1 << rng.randrange(8)
    path.write_bytes(data)


def flip_header(run: Path, rng: Random) -> None:
    path = _trace(run, rng)
    found = reader.scan_blocks(str(path))[0]
    offset, _, header = rng.choice(found)
    _flip(path, offset, offset + 16 + len(header), rng)


def flip_lines(run: Path, rng: Random) -> None:
    path = _trace(run, rng)
    offset, length, header = rng.choice(reader.scan_blocks(str(path))[0])
    _flip(path, offset + 16 + len(header), offset + length, rng)


def truncate(run: Path, rng: Random) -> None:
    path = _trace(run, rng)
    path.write_bytes(path.read_bytes()[: rng.randrange(path.stat().st_size)])


def zero(run: Path, rng: Random) -> None:
    path = _trace(run, rng)
    data = bytearray(path.read_bytes())
    at = rng.randrange(len(data))
    length = min(4096, len(data) - at)
    data[at : at + length] = bytes(length)
    path.write_bytes(data)


def copy_block(run: Path, rng: Random) -> None:
    blocks = _blocks(_trace(run, rng))
    with _trace(run, rng).open("ab") as file:
        file.write(rng.choice(blocks))


def copy_file(run: Path, rng: Random) -> None:
    path = _trace(run, rng)
    shutil.copyfile(path, path.with_name(f"copy_of_{path.name}"))


def remove_block(run: Path, rng: Random) -> None:
    several = [path for path in sorted((run / "trace").iterdir()) if len(_blocks(path)) > 1]
    if not several:
        return
    path = rng.choice(several)
    blocks = _blocks(path)
    del blocks[rng.randrange(len(blocks))]
    path.write_bytes(b"".join(blocks))


def swap_blocks(run: Path, rng: Random) -> None:
    first, second = _trace(run, rng), _trace(run, rng)
    if first == second:
        blocks = _blocks(first)
        rng.shuffle(blocks)
        first.write_bytes(b"".join(blocks))
        return
    one, other = _blocks(first), _blocks(second)
    i, j = rng.randrange(len(one)), rng.randrange(len(other))
    one[i], other[j] = other[j], one[i]
    first.write_bytes(b"".join(one))
    second.write_bytes(b"".join(other))


def remove_file(run: Path, rng: Random) -> None:
    _trace(run, rng).unlink()


def empty_file(run: Path, rng: Random) -> None:
    _trace(run, rng).write_bytes(b"")


def flip_catalogue(run: Path, rng: Random) -> None:
    path = run / "tailrace.db"
    _flip(path, 0, path.stat().st_size, rng)


def cut_catalogue(run: Path, rng: Random) -> None:
    path = run / "tailrace.db"
    path.write_bytes(path.read_bytes()[: rng.randrange(path.stat().st_size)])


def spoil_account(run: Path, rng: Random) -> None:
    _spoil(rng.choice(sorted((run / "accounts").iterdir())), rng)


def spoil_description(run: Path, rng: Random) -> None:
    _spoil(run / "run.json", rng)


def flip_manifest(run: Path, rng: Random) -> None:
    path = rng.choice(sorted((run / "manifest").iterdir()))
    _flip(path, 0, path.stat().st_size, rng)


def remove_manifest(run: Path, rng: Random) -> None:
    shutil.rmtree(run / "manifest")


def change_manifest_line(run: Path, rng: Random) -> None:
    """A line that is gone, that is there twice, that is cut, or that lists another file."""
    path = rng.choice(sorted((run / "manifest").glob("*.jsonl")))
    lines = path.read_bytes().splitlines(keepends=True)
    number = rng.randrange(len(lines))
    line = lines[number]
    other = line.replace(b'"file":"', b'"file":"other-')
    lines[number] = rng.choice([b"", line + line, line[: rng.randrange(len(line))], line + other, other])
    path.write_bytes(b"".join(lines))


def remove_host(run: Path, rng: Random) -> None:
    shutil.rmtree(run / "hosts")


def remove_account(run: Path, rng: Random) -> None:
    rng.choice(sorted((run / "accounts").iterdir())).unlink()


def spoil_host(run: Path, rng: Random) -> None:
    _spoil(rng.choice(sorted((run / "hosts").iterdir())), rng)


def spoil_declared(run: Path, rng: Random) -> None:
    path = rng.choice(sorted((run / "declared").glob("*.jsonl")))
    lines = path.read_bytes().splitlines(keepends=True)
    lines[rng.randrange(len(lines))] = rng.choice([b"{\n", b"[]\n", rng.randbytes(30) + b"\n"])
    path.write_bytes(b"".join(lines))


def copy_blocks_elsewhere(run: Path, rng: Random) -> None:
    """A file of blocks that others have, as a copied or merged run has it."""
    taken = _blocks(_trace(run, rng))
    chosen = rng.sample(taken, rng.randint(1, len(taken)))
    (run / "trace" / "elsewhere.0.pfw.gz").write_bytes(b"".join(chosen))


def _converted(run: Path) -> Path:
    """The run in the user's cache that a trace was converted into."""
    (found,) = (Path(os.environ["XDG_CACHE_HOME"]) / "tailrace").glob("foreign-*")
    return found


def flip_converted(run: Path, rng: Random) -> None:
    path = _trace(_converted(run), rng)
    _flip(path, 0, path.stat().st_size, rng)


def truncate_converted(run: Path, rng: Random) -> None:
    truncate(_converted(run), rng)


def remove_converted(run: Path, rng: Random) -> None:
    remove_file(_converted(run), rng)


def remove_converted_block(run: Path, rng: Random) -> None:
    path = _trace(_converted(run), rng)
    blocks = _blocks(path)
    del blocks[rng.randrange(len(blocks))]
    path.write_bytes(b"".join(blocks))


def spoil_converted(run: Path, rng: Random) -> None:
    _spoil(_converted(run) / "run.json", rng)


def flip_converted_catalogue(run: Path, rng: Random) -> None:
    flip_catalogue(_converted(run), rng)


def _spoil(path: Path, rng: Random) -> None:
    """Cut, a value of another type or size, or no text at all."""
    text = path.read_bytes()
    value = json.loads(text)
    if rng.randrange(3) == 0:
        path.write_bytes(text[: rng.randrange(len(text))])
    elif rng.randrange(2) == 0:
        path.write_bytes(rng.randbytes(50))
    else:
        row = value[0] if isinstance(value, list) else value
        row[rng.choice(sorted(row))] = rng.choice([2**70, -(2**70), [], {}, [[]], None, 1e308, "\ud800"])
        path.write_text(json.dumps(value))


OF_RUNS: tuple[Callable[[Path, Random], None], ...] = (
    *(flip_header, flip_lines, truncate, zero, copy_block, copy_file, remove_block, swap_blocks, remove_file),
    *(empty_file, flip_catalogue, cut_catalogue, spoil_account, spoil_description, flip_manifest, remove_manifest),
    *(change_manifest_line, remove_account, spoil_host, remove_host, spoil_declared, copy_blocks_elsewhere),
)
OF_CONVERTED = (
    *(flip_converted, truncate_converted, remove_converted, remove_converted_block, spoil_converted),
    flip_converted_catalogue,
)
KINDS = (*OF_RUNS, *OF_CONVERTED)
OF_CATALOGUE = (flip_catalogue, cut_catalogue, *OF_CONVERTED)


# ---- what a run answers ----


TIMES = headers.Time._fields


def answers(run: Path) -> tuple[dict[str, Any], bool]:
    """Everything that could be wrong, and whether something is said to be missing."""
    opened = tailrace.open(run)
    events = opened.read(columns=["name", "host", "pid", "ts", "dur", "path", "size", "stage"])
    edges = opened.edges()
    found = {
        "events": sorted(map(repr, events.astype(object).itertuples(index=False, name=None))),
        "bursts": sorted(edges.bursts[["bytes", "calls", "first_ns", "last_ns"]].to_numpy().tolist()),
        "processes": _cells(opened.processes.drop(columns=[*TIMES])),
        "coverage": _cells(opened.coverage.drop(columns=[*TIMES])),
        "times": set(_cells(opened.processes.melt(PROCESS, [*TIMES]).dropna())),
        "graph": sorted(map(repr, opened.dataflow("stage").edges(data=True))),
        "stages": _cells(opened.stages),
        "declared": [*_cells(opened.declared_tasks), *_cells(opened.declared_tries)],
    }
    info = opened.info()
    keys = ("events", "processes", "read_bytes", "written_bytes", "hosts", "stages")
    found["info"] = {key: info[key] for key in keys}
    summary.collect(opened)
    short = info["coverage"]["below"] + info["coverage"]["untraced"]
    said = [*opened.problems, *opened.declared_problem_rows()]
    return found, bool(said) or short > 0 or not opened.meta


def _cells(table: pd.DataFrame) -> list[str]:
    return sorted(map(repr, table.astype(object).itertuples(index=False, name=None)))


def outcome(run: Path, whole: dict[str, Any]) -> tuple[str, str]:
    """The outcome's name, and what differs or failed."""
    try:
        found, said = answers(run)
    except TailraceError as error:
        return "refused", str(error)
    except Exception:
        return "traceback", traceback.format_exc()
    different = [name for name in whole if found[name] != whole[name]]
    # Only the account of who waited for a process has its processor time, which is unknown without it.
    if found["times"] < whole["times"]:
        different.remove("times")
    if not different:
        return "right", ""
    return ("said" if said else "silent"), ", ".join(different)


Found = list[tuple[str, str, str, int]]
"""Of each round its kind, outcome, details and number."""


def rounds(runs: dict[str, Path], numbers: range, place: Path) -> Found:
    """A damaged copy of a run for each number: each kind in its turn, on each run that it concerns in its turn."""
    wholes = {}
    for name, run in runs.items():
        copy = _copy(run, place)
        wholes[name], said = answers(copy)
        assert name == "foreign" or not said, f"the run {name} is itself incomplete"
        _remove(copy)
    ours = [name for name in runs if name != "foreign"]
    found = []
    for number in numbers:
        rng, kind = Random(number), KINDS[number % len(KINDS)]
        name = "foreign" if kind in OF_CONVERTED else ours[number // len(KINDS) % len(ours)]
        copy = _copy(runs[name], place)
        if kind in OF_CATALOGUE:
            tailrace.open(copy).edges()  # so that only the damage makes it stale
        kind(copy, rng)
        found.append((kind.__name__, *outcome(copy, wholes[name]), number))
        _remove(copy)
    return found


def _remove(copy: Path) -> None:
    """The copy, and what it was converted into: the next copy has another conversion, which is to be the only one."""
    shutil.rmtree(copy)
    shutil.rmtree(os.environ["XDG_CACHE_HOME"], ignore_errors=True)


def _copy(run: Path, place: Path) -> Path:
    copy = place / "run"
    shutil.copytree(run, copy)
    return copy


def table(found: Found) -> str:
    """Kind x outcome, in Markdown."""
    counts = Counter((kind, name) for kind, name, *_ in found)
    rows = [[kind.__name__, *(counts[kind.__name__, name] for name in OUTCOMES)] for kind in KINDS]
    rows.append(["all", *(sum(counts[kind.__name__, name] for kind in KINDS) for name in OUTCOMES)])
    head = ["| damage | " + " | ".join(OUTCOMES) + " |", "|---|" + "--:|" * len(OUTCOMES)]
    return "\n".join([*head, *("| " + " | ".join(str(cell or "") for cell in row) + " |" for row in rows)])


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        os.environ["XDG_CACHE_HOME"] = str(place / "cache")
        found = rounds(make_runs(place), range(given.seed, given.seed + given.rounds), place)
    print(table(found))
    bad = [row for row in found if row[1] in FAULTS]
    for kind, name, details, number in bad[:20]:
        print(f"\n{kind}, seed {number}: {name}: {details}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
