"""Other tracers' traces with damage at random: read, counted or refused by name, never a traceback.

More by hand: TAILRACE_FUZZ_ROUNDS=300 pytest tests/unit/test_foreign_damage.py
"""

import gzip
import json
import os
import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import tailrace
from support.otf2_archive import archive
from tailrace.errors import TailraceError

DATA = Path(__file__).parents[1] / "data"
ROUNDS = int(os.environ.get("TAILRACE_FUZZ_ROUNDS", "30"))
VALUES = (
    *("NaN", "Infinity", "-Infinity", "null", "true", "-1", "-0.5", "1e999", "1e300", "[]", "{}", "[[[[]]]]"),
    *(str(2**53 - 1), str(2**63), "9" * 400, '""', '"x"', '"NaN"', '"\\ud800"', '"9300000000000000.5"'),
)
VALUE = re.compile(rb'(?<=:)\s*("[^"]*"|-?[\d.]+|null)|(?<=[ (])[\d.]+(?= )')
"""Of a member in JSON, or a word in Recorder's texts."""


def swapped(data: bytes, dice: random.Random) -> bytes:
    found = list(VALUE.finditer(data))
    chosen = dice.sample(found, min(len(found), dice.choice((1, 4, 12))))
    for one in sorted(chosen, key=lambda one: -one.start()):
        data = data[: one.start()] + dice.choice(VALUES).encode() + data[one.end() :]
    return data if found else overwritten(data, dice)


def flipped(data: bytes, dice: random.Random) -> bytes:
    out = bytearray(data)
    for _ in range(dice.choice((1, 1, 4, 16))):
        out[dice.randrange(len(out))] ^= 1 << dice.randrange(8)
    return bytes(out)


def cut(data: bytes, dice: random.Random) -> bytes:
    return data[: dice.randrange(len(data))]


def overwritten(data: bytes, dice: random.Random) -> bytes:
    """Eight bytes become zeros, ones, or NaN."""
    at = dice.choice((dice.randrange(max(len(data) - 8, 1)), 8 * dice.randrange(3)))
    return data[:at] + dice.choice((b"\xff" * 8, bytes(8), bytes(6) + b"\xf8\x7f")) + data[at + 8 :]


def of_recorder(place: Path) -> None:
    shutil.copytree(DATA / "recorder", place, dirs_exist_ok=True)


def of_dftracer(place: Path) -> None:
    for kind in ("us", "agg"):
        for file in (DATA / "dftracer" / kind).glob("*.pfw.gz"):
            (place / f"{kind}-{file.stem}").write_bytes(gzip.decompress(file.read_bytes()))


def of_chrome(place: Path) -> None:
    args = {"path": "/data/x", "bytes": 100, "stage": "a b,c", "dir": "r", "ret": 3, "offset": 2, "count": 4, "rank": 3}
    thread = {"pid": 5, "tid": 6}
    rows = [
        {"ph": "M", "name": "process_name", "pid": 5, "args": {"name": "train.py"}},
        {**thread, "ph": "X", "name": "read", "cat": "POSIX", "ts": 10.5, "dur": 2.25, "args": args},
        {**thread, "ph": "B", "name": "outer", "ts": 20},
        {**thread, "ph": "E", "ts": 22, "args": {"size": 7}},
        {"pid": "5", "tid": "6", "ph": "i", "name": "mark", "ts": 40},
    ]
    (place / "a.json").write_text(json.dumps(rows))


def of_otf2(place: Path) -> None:
    archive(place / "a")


def of_darshan(place: Path) -> None:
    examples = pytest.importorskip("darshan.examples.example_logs", reason="PyDarshan is not installed")
    shutil.copy(Path(examples.__file__).parent / "dxt.darshan", place)


# The seeds bring NaN into a recorder.mt, and a lone surrogate into a name, within 30 rounds;
# in those of OTF2 the package writes a traceback itself; in those of Darshan its library crashes.
@pytest.mark.parametrize(
    ("make", "first"), [(of_recorder, 60), (of_dftracer, 0), (of_chrome, 121), (of_otf2, 205), (of_darshan, 0)]
)
def test_damage_is_counted_or_refused(
    make: Callable[[Path], None],
    first: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", "")  # without Recorder's converter
    place = tmp_path / "trace"
    place.mkdir()
    make(place)
    files = {path: path.read_bytes() for path in sorted(place.rglob("*")) if path.is_file()}
    told = 0
    for seed in range(first, first + ROUNDS):
        dice = random.Random(seed)
        path = dice.choice(list(files))
        how = dice.choice((swapped, swapped, flipped, cut, overwritten))
        path.write_bytes(how(files[path], dice))
        try:
            run = tailrace.open(path if len(files) == 1 else place)
            assert len(run.read()) <= run.info()["events"]
            told += not run.losses.empty
        except TailraceError as error:
            assert str(place) in str(error), f"{how.__name__} of seed {seed}"
            told += 1
        path.write_bytes(files[path])
    assert "Traceback" not in capfd.readouterr().err
    assert told > ROUNDS // 10
