"""Corrupts copies of a run at random and asks them everything: is each answer right, or said to be incomplete?

    python -m support.corruption --rounds 1000 RUN        (in tests/; prints kind x outcome, exit code 1 if any is bad)

Outcomes: `right`, the answers are those of the whole run; `said`, they differ, and `run.problems`, or the coverage of a
process, says that something is missing; `refused`, a TailraceError. `silent` and `traceback` are faults.
"""

import argparse
import json
import random
import shutil
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

import tailrace
from support import reader
from tailrace.analyzer import summary
from tailrace.errors import TailraceError

FAULTS = ("silent", "traceback")
Random = random.Random


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


def remove_account(run: Path, rng: Random) -> None:
    rng.choice(sorted((run / "accounts").iterdir())).unlink()


def spoil_host(run: Path, rng: Random) -> None:
    """A description of another host's, or of this one's, that is damaged."""
    folder = run / "hosts"
    folder.mkdir(exist_ok=True)
    if not any(folder.iterdir()):
        known = json.loads((run / "run.json").read_bytes())
        text = json.dumps({key: known[key] for key in ("host", "boot_id", "mounts")})
        (folder / "other.json").write_text(text, encoding="utf-8")
    _spoil(rng.choice(sorted(folder.iterdir())), rng)


def spoil_declared(run: Path, rng: Random) -> None:
    files = sorted((run / "declared").iterdir())
    if files:
        path = rng.choice(files)
        lines = path.read_bytes().splitlines(keepends=True)
        lines[rng.randrange(len(lines))] = rng.choice([b"{\n", b"[]\n", rng.randbytes(30) + b"\n"])
        path.write_bytes(b"".join(lines))


def copy_blocks_elsewhere(run: Path, rng: Random) -> None:
    """A file of blocks that others have, as a copied or merged run has it."""
    taken = _blocks(_trace(run, rng))
    chosen = rng.sample(taken, rng.randint(1, len(taken)))
    (run / "trace" / "elsewhere.0.pfw.gz").write_bytes(b"".join(chosen))


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


KINDS: tuple[Callable[[Path, Random], None], ...] = (
    *(flip_header, flip_lines, truncate, zero, copy_block, copy_file, remove_block, swap_blocks, remove_file),
    *(empty_file, flip_catalogue, cut_catalogue, spoil_account, spoil_description, flip_manifest, remove_manifest),
    *(remove_account, spoil_host, spoil_declared, copy_blocks_elsewhere),
)


OF_CATALOGUE = (flip_catalogue, cut_catalogue)


# ---- what a run answers ----


def answers(run: Path) -> tuple[dict[str, Any], bool]:
    """Everything that could be wrong, and whether something is said to be missing."""
    opened = tailrace.open(run)
    events = opened.read(columns=["name", "host", "pid", "ts", "dur", "path", "size", "stage"])
    edges = opened.edges()
    found = {
        "events": sorted(map(repr, events.astype(object).itertuples(index=False, name=None))),
        "bursts": sorted(edges.bursts[["bytes", "calls", "first_ns", "last_ns"]].to_numpy().tolist()),
        "processes": _cells(opened.processes),
        "coverage": _cells(opened.coverage),
        "graph": sorted(map(repr, opened.dataflow("stage").edges(data=True))),
        "stages": _cells(opened.stages),
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
    if not different:
        return "right", ""
    return ("said" if said else "silent"), ", ".join(different)


def rounds(run: Path, count: int, seed: int, place: Path) -> list[tuple[str, str, str, int]]:
    """(kind, outcome, details, seed) of `count` damaged copies of the run, each kind in its turn."""
    whole, said = answers(run)
    assert not said, "the run itself is incomplete"
    found = []
    for number in range(seed, seed + count):
        rng, kind = Random(number), KINDS[number % len(KINDS)]
        copy = place / "run"
        shutil.copytree(run, copy)
        if kind in OF_CATALOGUE:
            tailrace.open(copy).edges()  # so that only the damage makes it stale
        kind(copy, rng)
        found.append((kind.__name__, *outcome(copy, whole), number))
        shutil.rmtree(copy)
    return found


def table(found: list[tuple[str, str, str, int]]) -> str:
    """Kind x outcome."""
    names = ["right", "said", "refused", *FAULTS]
    counts = Counter((kind, name) for kind, name, *_ in found)
    rows = [f"{kind.__name__:18}" + "".join(f"{counts[kind.__name__, name]:11}" for name in names) for kind in KINDS]
    return "\n".join([" " * 18 + "".join(f"{name:>11}" for name in names), *rows])


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("run", type=Path)
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        found = rounds(given.run, given.rounds, given.seed, Path(place))
    print(table(found))
    bad = [row for row in found if row[1] in FAULTS]
    for kind, name, details, number in bad[:20]:
        print(f"\n{kind}, seed {number}: {name}: {details}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
