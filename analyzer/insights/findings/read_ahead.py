"""Bytes that the C library's streams read ahead and drop."""

from __future__ import annotations

from collections.abc import Iterator

from tailrace.analyzer.insights import call_costs, call_places
from tailrace.analyzer.insights.analyses import Analyses
from tailrace.analyzer.insights.finding import FLOOR, SPACE, Match, Rule, Threshold, more, rows_of
from tailrace.analyzer.util.formatting import bytes_text, count_text

BYTES = Threshold(1, "MiB in a stage")
LEAST = Threshold(1, "% of all bytes read and written")


def find(found: Analyses) -> Iterator[Match]:
    """All stages that do so, as one match."""
    rows = call_costs.read_ahead(found.inputs)
    rows = rows[rows["ahead"] >= BYTES.value * 2**20] if len(rows) else rows
    cost = int(rows["ahead"].sum()) if len(rows) else 0
    if not LEAST.reached(cost, found.moved_bytes):
        return
    top = rows.iloc[0]
    path, whole = str(top["path"]), int(top["ahead"]) + int(top["asked"])
    yield Match(
        title=f"{top['stage']}: streams of the C library read {bytes_text(whole)} of"
        f" {count_text(int(top['files']), 'file')} (most of {path}) for {bytes_text(int(top['asked']))} that the"
        f" program took, {whole / max(int(top['asked']), 1):,.0f} times as much, and dropped the rest at"
        f" {count_text(int(top['seeks']), 'seek')} and at the close{more(len(rows))}"
        f"{call_places.words(found.call_places, int(top['stage_code']), path=path)}",
        names={"stage": found.of_stage(str(top["stage"])), "path": path},
        cost_bytes=cost,
        count=len(rows),
        evidence=rows_of(rows.drop(columns=["stage_code", "gain_ns"])),
        tasks=found.tasks_of_stages(set(rows["stage_code"])),
    )


RULE = Rule(
    kind="read ahead for nothing",
    about=SPACE,
    title="Streams that read far more than the program takes",
    definition=(
        f"Of files of data, the C library's streams (fread, fgets, fscanf, ...) read {BYTES} or more beyond what the"
        " program took, and more than that: a stream fills its whole buffer at each read from the kernel, and drops it"
        " at a seek to another place and at its close. The cost is the bytes that were dropped."
    ),
    advice=(
        "Read such a file in its order, or whole; where only small parts at many places are needed, read them by pread"
        " or from a mapping, or give the stream a buffer of your own of their size before its first use (setvbuf(file,"
        " buffer, _IOFBF, sizeof buffer); glibc ignores the size where the buffer is NULL)."
    ),
    source="setvbuf(3), fseek(3); what /proc/PID/io counts beyond the calls",
    query="tailrace query {run} {stage} --path {path} --by name --agg count --agg sum:size --agg sum:ahead",
    find=find,
    thresholds=(BYTES, LEAST, FLOOR),
)
