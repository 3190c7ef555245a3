"""Much data through small buffers of the C library."""

from __future__ import annotations

from collections.abc import Iterator

from tailrace.analyzer.edges import edge_table
from tailrace.analyzer.insights import call_costs
from tailrace.analyzer.insights.analyses import Analyses
from tailrace.analyzer.insights.finding import IO, LEAST, TIME, Match, Rule, Threshold, more
from tailrace.analyzer.insights.findings import _calls
from tailrace.analyzer.insights.inputs import FLOOR_BYTES
from tailrace.analyzer.util.formatting import bytes_text, time_text
from tailrace.analyzer.util.types import Row

SHARE = Threshold(10, "% of all bytes read and written")
BYTES = Threshold(32, "MiB in a stage")


def find(found: Analyses) -> Iterator[Match]:
    """All stages that do so, as one match."""
    rows = call_costs.streams(found.inputs)
    if len(rows):
        much = (rows["bytes"] >= BYTES.value * 2**20) & (rows["bytes"] >= SHARE.value / 100 * found.moved_bytes)
        rows = rows[much]
    moves = (edge_table.READ, edge_table.WRITE)
    yield from _calls.of_stages(found, rows, _title, calls={"names": call_costs.STREAM}, kinds=moves)


def _title(top: Row, count: int) -> str:
    moved, mean = bytes_text(int(top["bytes"])), bytes_text(float(top["mean_bytes"]))
    return (
        f"{top['stage']}: {moved} went through streams of the C library in {top['calls']:,} calls of {mean} on average,"
        f" which took {time_text(int(top['time_ns']))}; with the usual buffer that is a call to the kernel for each"
        f" {bytes_text(FLOOR_BYTES)}, {top['kernel_calls']:,} in all{more(count)}"
    )


RULE = Rule(
    kind="stream buffers",
    about=TIME,
    title="Much data through small buffers of the C library",
    definition=(
        f"Processes moved {BYTES} or more, and {SHARE}, through stdio (fread, fwrite, fgets, fprintf, ...) in calls"
        f" smaller than {bytes_text(FLOOR_BYTES)} on average. General tools (sort, uniq) are left out, and processes"
        " that jump in their files, since a seek drops the buffer. The estimate is the time in these calls: an upper"
        " bound."
    ),
    advice=(
        "Give the stream a buffer of your own of 1 MiB before its first use (setvbuf(file, buffer, _IOFBF, 1 << 20);"
        " glibc ignores the size where the buffer is NULL), read and write whole arrays with one fread or fwrite, or"
        " use read(2), write(2) or mmap with large parts."
    ),
    source="Bez et al. 2022 (Drishti: stdio from 10% of the bytes on); setvbuf(3)",
    query="tailrace query {run} {stage} --where cat=STDIO --by name,path --agg count --agg sum:size --agg sum:dur",
    find=find,
    thresholds=(BYTES, SHARE, LEAST),
    change="larger buffers",
    explains=(IO,),
)
