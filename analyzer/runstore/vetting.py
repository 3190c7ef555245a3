"""Parts of other users, looked at once before they are read: a Parquet file of some kilobytes may hold, or promise, any
number of gigabytes, and whoever may add parts could stop the questions of all others with it.

    refused(store, [(part, table), ...]) --lines--> python -m tailrace.analyzer.runstore.vetting --lines--> why not

A process of bounded memory goes through each file in pieces. Where it takes too long, or dies, the file that it was at
is refused, and another process goes on with the next one. What was found to be sound is remembered by inode, size and
times, in this process and in the user's cache.

Invariant: a file that is believed holds texts and lists within the limits of docs/store.md, and not very many times its
own size. The user who owns it may still replace it while it is read.
"""

from __future__ import annotations

import hashlib
import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from tailrace.analyzer.runstore import parts
from tailrace.analyzer.runstore.columns import EVENTS, MOST_TEXT, MOST_WORDS, TABLES, TEXT, TEXTS, arrow_schema
from tailrace.analyzer.runstore.parts import RUNS, Access, Part, Refused
from tailrace.base import child, ownership

if TYPE_CHECKING:
    import pyarrow as pa

_MEMORY_BYTES = 1 << 30
_START_S = 60.0
"""For the import of Arrow."""
_FILE_S, _S_PER_MIB = 20.0, 5.0
_LEAST_BYTES = 16 << 20
_RATIO, _RATIO_OF_EVENTS = 200, 2000
"""Of values, with each text as often as it is there, to the file: honest ones have up to 15, those of events 200."""
_ROWS = 1 << 16
_MOST_CACHED = 16 << 20
_known: set[str] = set()
"""Of files that are sound, in this process."""

Asked = tuple[Part, str]


class _Found(NamedTuple):
    why: str
    stamp: str


def refused(store: Path, asked: Iterable[Asked]) -> dict[Part, str]:
    """Those of these tables that are not to be read, with the reason: of parts of other users. A part that is gone is
    left to whoever reads it."""
    wanted: list[tuple[Asked, str]] = []
    for part, table in asked:
        if part.access.uid != os.geteuid() and (stamp := _stamp_of(part, table)):
            wanted.append(((part, table), stamp))
    cache = _cache_of(store)
    if any(stamp not in _known for _, stamp in wanted):
        _known.update(_cached(cache))
    left = [one for one, stamp in wanted if stamp not in _known]
    found: dict[Part, str] = {}
    sound: list[str] = []
    while left:
        done = list(_looked_at(left))
        for (part, _), (why, stamp) in zip(left, done, strict=False):
            if why:
                found.setdefault(part, why)
            else:
                sound.append(stamp)
        left = left[len(done) :]
    _known.update(sound)
    _keep(cache, sound)
    return found


def _stamp_of(part: Part, table: str) -> str:
    """What tells a file from any other; "" where it is gone."""
    try:
        return _stamp(part.table(table).lstat(), table)
    except OSError:
        return ""


def _stamp(status: os.stat_result, table: str) -> str:
    times = (status.st_mtime_ns, status.st_ctime_ns)
    return " ".join(map(str, (table, status.st_dev, status.st_ino, status.st_size, *times)))


# ---- what is remembered ----


def _cache_of(store: Path) -> Path | None:
    folder = ownership.private_cache()
    name = hashlib.sha256(os.fsencode(store.resolve())).hexdigest()[:24]
    return None if folder is None else folder / f"store-{name}.sound"


def _cached(cache: Path | None) -> list[str]:
    if cache is not None:
        with suppress(OSError, ValueError):
            return ownership.read_regular(cache, _MOST_CACHED).decode("ascii").splitlines()
    return []


def _keep(cache: Path | None, sound: Sequence[str]) -> None:
    if cache is None or not sound:
        return
    text = "".join(f"{stamp}\n" for stamp in sound)
    with suppress(OSError):
        if cache.exists() and cache.lstat().st_size + len(text) > _MOST_CACHED:
            cache.unlink()
        with cache.open("a", encoding="ascii") as file:
            os.fchmod(file.fileno(), 0o600)
            file.write(text)


# ---- the process that looks ----


def _looked_at(asked: Sequence[Asked]) -> Iterator[_Found]:
    """What is found of these files, up to the first one that ends or stops the process, with that one."""
    with subprocess.Popen(
        [sys.executable, "-m", __name__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd="/",  # no module of the working directory is imported
        env={**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "system", "OMP_NUM_THREADS": "1"},
        text=True,
    ) as process:
        try:
            assert process.stdin is not None and process.stdout is not None
            for number, (part, table) in enumerate(asked):
                access = part.access
                request = [
                    os.fspath(part.path.absolute()),
                    access.uid,
                    access.mode,
                    access.gid,
                    part.entry is not None,
                    table,
                ]
                size = _size(part, table)
                limit = _FILE_S + _S_PER_MIB * (size >> 20) + (_START_S if number == 0 else 0)
                with suppress(BrokenPipeError):
                    process.stdin.write(json.dumps(request) + "\n")
                    process.stdin.flush()
                answer = _line(process.stdout, limit)
                if answer is None:
                    yield _Found(f"{table}.parquet: reading it takes more than {limit:.0f} s", "")
                    return
                if not answer:
                    yield _Found(f"{table}.parquet: reading it ends the process that does", "")
                    return
                yield _Found(*json.loads(answer))
        finally:
            process.kill()


def _size(part: Part, table: str) -> int:
    """The bytes of a file that are stored."""
    with suppress(OSError):
        status = part.table(table).lstat()
        return min(status.st_size, max(status.st_blocks * 512, _LEAST_BYTES))
    return 0


def _line(file: IO[str], seconds: float) -> str | None:
    """The next line; "" at the end; None where it has not begun in this time. Lines are written at once."""
    poll = select.poll()
    poll.register(file, select.POLLIN)
    deadline = time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0:
        if poll.poll(left * 1000):
            return file.readline()
    return None


def main() -> None:
    """Answers each line of stdin, a list, by one on stdout: why the file is not to be read, or "", and its stamp."""
    import pyarrow.parquet  # noqa: F401 (before memory is limited)

    child.limit_memory(_MEMORY_BYTES)
    for line in sys.stdin:
        path, uid, mode, gid, is_entry, table = json.loads(line)
        place = Path(path)
        entry = parts.Entry.of(place.name) if is_entry else None
        part = Part(place, Access(uid, mode, gid), "", entry, (False, 0, ""))
        print(json.dumps(_answer(part, table)), flush=True)


def _answer(part: Part, table: str) -> _Found:
    try:
        descriptor = parts.open_descriptor(part.table(table), part.access.uid)
        try:
            stamp = _stamp(os.fstat(descriptor), table)
            _check(part, table, descriptor)
        finally:
            os.close(descriptor)
    except MemoryError:
        return _Found(f"{table}.parquet: reading it takes more than {_MEMORY_BYTES >> 20:,} MiB of memory", "")
    except FileNotFoundError:
        return _Found("", "")
    except Exception as error:  # of any kind: it is another user's file
        return _Found(f"{table}.parquet: {' '.join(str(error).split())[:200]}", "")
    return _Found("", stamp)


def _check(part: Part, table: str, descriptor: int) -> None:
    """Raises an exception where the file is not to be read."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    status = os.fstat(descriptor)
    size, stored = status.st_size, status.st_blocks * 512
    # Its checksum would be made of all of its zeros. Some file systems don't tell blocks.
    if stored and size > _LEAST_BYTES and size > _RATIO * stored:
        raise Refused(f"of its {size:,} bytes {stored:,} are stored")
    most = _LEAST_BYTES + size * (_RATIO_OF_EVENTS if table == EVENTS else _RATIO)
    texts = [name for name, column in TABLES[table].columns.items() if column.kind == TEXT]
    with pa.OSFile(f"/proc/self/fd/{descriptor}") as file:
        source = pq.ParquetFile(file, read_dictionary=texts, page_checksum_verification=True)
        if table == RUNS and part.entry is not None and source.metadata.num_rows != 1:
            raise Refused(f"it has {source.metadata.num_rows:,} rows of one run")
        taken = 0
        names = [name for name in source.schema_arrow.names if name in TABLES[table].columns]
        for batch in source.iter_batches(batch_size=_ROWS, columns=names, use_threads=False):
            taken += _bytes_in(batch, table)
            if taken > most:
                raise Refused(f"it expands to more than {most >> 20:,} MiB")


def _bytes_in(batch: pa.RecordBatch, table: str) -> int:
    """What the values take. Raises an exception where one is none of its column."""
    import pyarrow as pa

    wanted = arrow_schema(table)
    taken = 0
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        kind = TABLES[table].columns[name].kind
        if kind == TEXT and pa.types.is_dictionary(column.type):
            taken += _bytes_of_texts(column, name)
        elif kind == TEXTS and pa.types.is_list(column.type):
            taken += _bytes_of_lists(column, name)
        else:
            column.cast(wanted.field(name).type)
            taken += column.nbytes
    return taken


def _bytes_of_texts(column: pa.DictionaryArray, name: str) -> int:
    import pyarrow.compute as pc

    lengths = pc.binary_length(column.dictionary)
    _check_length(pc.max(lengths).as_py(), name)
    return (pc.sum(lengths.take(column.indices)).as_py() or 0) + 4 * len(column)


def _bytes_of_lists(column: pa.ListArray, name: str) -> int:
    import pyarrow.compute as pc

    if (pc.max(pc.list_value_length(column)).as_py() or 0) > MOST_WORDS:
        raise Refused(f"{name} has lists of more than {MOST_WORDS} texts")
    texts = column.flatten()
    lengths = pc.binary_length(texts)
    _check_length(pc.max(lengths).as_py(), name)
    return (pc.sum(lengths).as_py() or 0) + 8 * len(texts)


def _check_length(longest: Any, name: str) -> None:
    if (longest or 0) > MOST_TEXT:
        raise Refused(f"{name} has a text of {longest:,} bytes, more than the {MOST_TEXT:,} that a text has")


if __name__ == "__main__":
    main()
