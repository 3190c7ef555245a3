"""A store of many runs: what indexing one costs, and how long questions over 100,000 take.

    python tests/bench/store.py                      # 100 real runs, replicated to 100,000
    python tests/bench/store.py --runs 1000 --copies 100
    python tests/bench/store_cluster.py              # indexing by a Dask cluster

The runs are real ones of a small script: three programs, eight files, one of them read by every run. Copies have other
ids, users, paths, identities and days; each day's are merged by `tailrace index --compact`, the first day by one entry
a run. Prints a table of Markdown. Files of the system's cache are warm.
"""

from __future__ import annotations

import argparse
import os
import resource
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

import tailrace
from tailrace.analyzer.runstore import compaction, parts, rows
from tailrace.analyzer.runstore.columns import TABLES
from tailrace.analyzer.runstore.parts import Access, Entry
from tailrace.analyzer.runstore.store import _stamped

SCRIPT = "sort ../shared.csv > a.txt; cut -c1-4 a.txt > b.txt; cat a.txt b.txt > c.txt; rm a.txt"


def traced(folder: Path, count: int) -> list[Path]:
    """Real runs."""
    (folder / "shared.csv").write_text("".join(f"{n},{n * n}\n" for n in range(200)))
    found = []
    for number in range(count):
        work = folder / f"work{number}"
        work.mkdir()
        words = [sys.executable, "-m", "tailrace.cli.main", "run", "-q", "-o", work / "run", "-t", "workflow=bench"]
        subprocess.run([*words, "--", "sh", "-c", SCRIPT], cwd=work, check=True)
        found.append(work / "run")
    return found


def processor(work: Callable[[], object]) -> tuple[float, float]:
    """Processor and wall time, s."""
    cpu, wall = time.process_time(), time.perf_counter()
    work()
    return time.process_time() - cpu, time.perf_counter() - wall


def copied(tables: dict[str, pa.Table], number: int, day: int) -> dict[str, pa.Table]:
    """A run's rows as those of another run: of another user, in other files, on another day."""
    entry = Entry(f"{number:032x}", 1, secrets.token_hex(8))
    out = {}
    files = tables["files"]
    shared = files.filter(pc.ends_with(files["path"], "shared.csv"))["file"].combine_chunks()
    for name, table in tables.items():
        table = _stamped(table, entry)
        for column, change in (("run", entry.run), ("user", f"user{number % 97}")):
            if column in table.column_names and (name == "runs" or column == "run"):
                at = table.schema.get_field_index(column)
                table = table.set_column(at, table.schema.field(at), pa.array([change] * table.num_rows, pa.string()))
        for column in ("path", "file", "identity"):
            if column in table.column_names and name != "runs":
                at = table.schema.get_field_index(column)
                text = pc.replace_substring(table[column], ":", f":{number}", max_replacements=1)
                text = pc.replace_substring_regex(text, r"/work\d+/", f"/work{number}/")
                if column != "path":
                    text = pc.if_else(pc.is_in(table[column], shared), table[column], text)
                table = table.set_column(at, table.schema.field(at), text)
        out[name] = table
    return out


def fill(store: Path, samples: list[dict[str, pa.Table]], runs: int, a_day: int) -> None:
    """Days of copies, each a merged part, the last one of single entries."""
    access, number = Access(os.geteuid()), 0
    for day in range(runs // a_day):
        place = parts.place_of(store, access, f"{2000 + day // 360}-{day // 30 % 12 + 1:02}-{day % 30 + 1:02}")
        found: dict[str, list[pa.Table]] = {name: [] for name in TABLES}
        for _ in range(a_day):
            for name, table in copied(samples[number % len(samples)], number, day).items():
                found[name].append(table)
            number += 1
        with parts.publishing(place, parts.merged_name([]), access) as scratch:
            for name, tables in found.items():
                if not tables:
                    continue  # events: the runs are indexed without them
                table = pa.concat_tables(tables)
                keys = [("run", "ascending"), *((column, "ascending") for column in TABLES[name].order)]
                parts.write(scratch, {name: table.sort_by(keys)})


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=100, help="real runs")
    parser.add_argument("--copies", type=int, default=1000, help="copies of each")
    parser.add_argument("--a-day", type=int, default=1000, help="runs a day")
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="tailrace-store-"))
    try:
        found = traced(folder, given.runs)
        real, store = folder / "real", folder / "store"
        parts.create(real)
        parts.create(store)
        opened = tailrace.open_store(real)
        opened.add(tailrace.open(found[0]))  # imports

        def add() -> None:
            for path in found:
                opened.add(tailrace.open(path))

        cpu, _ = processor(add)
        size = sum(path.stat().st_size for path in real.rglob("*.parquet")) / (len(found) + 1)
        lines = [("index a run (processor)", f"{cpu / len(found):.3f} s"), ("its files", f"{size / 1000:.0f} kB")]
        cpu, _ = processor(lambda: compaction.compact(real))
        merged = sum(path.stat().st_size for path in real.rglob("*.parquet")) / len(found)
        lines += [("compact, a run (processor)", f"{cpu / len(found) * 1000:.1f} ms")]
        lines += [("its bytes after that", f"{merged / 1000:.1f} kB")]
        samples = [rows.rows_of(tailrace.open(path)) for path in found[:20]]
        total = given.runs * given.copies
        fill(store, samples, total, given.a_day)
        files = len(list(store.rglob("*.parquet"))) / (total // given.a_day)
        size = sum(path.stat().st_size for path in store.rglob("*.parquet"))
        lines += [
            ("runs in the store", f"{total:,}"),
            ("files a day", f"{files:.0f}"),
            ("bytes", f"{size / 1e6:.0f} MB"),
        ]
        whole = tailrace.open_store(store)
        by_user = 'select "user", count(*), sum(read_bytes), sum(io_ns) from runs group by all order by 3 desc'
        small = (
            'select "user", sum(f.read_calls) from files f join runs using (owner, run) group by all order by 2 desc'
        )
        for name, query in (("by user over all runs", by_user), ("the same over all files", small)):
            tailrace.open_store(store).sql(query)
            lines.append((name, f"{processor(lambda query=query: tailrace.open_store(store).sql(query))[1]:.2f} s"))
        for name in (f"/work{total // 2}/c.txt", "c.txt-of-no-run"):

            def ask(name: str = name) -> None:
                with suppress(tailrace.TailraceError):
                    tailrace.open_store(store).file(str(folder) + name)

            ask()
            lines.append((f"history of a file ({name.split('/')[-1]})", f"{processor(ask)[1]:.2f} s"))
        assert whole.sql("select count(*) as n from runs").to_pylist() == [{"n": total}]
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        lines.append(("largest memory of all this", f"{peak:,.0f} MiB"))
        print("| what | measured |\n|---|---|")
        print("\n".join(f"| {name} | {value} |" for name, value in lines))
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
