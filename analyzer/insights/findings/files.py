"""Findings about files: what was written, read and kept for nothing, and where it could lie."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np
import pandas as pd

from tailrace.analyzer.edges import file_classes
from tailrace.analyzer.insights import call_costs, call_places
from tailrace.analyzer.insights.analyses import Analyses
from tailrace.analyzer.insights.finding import FLOOR, IO, LEAST, SPACE, TIME, Match, Rule, Threshold, more, rows_of
from tailrace.analyzer.insights.lifetime import COPIER, KERNEL
from tailrace.analyzer.store import mounts
from tailrace.analyzer.util.formatting import bytes_text, count_text, time_text
from tailrace.analyzer.util.types import Bools

LEAST_BYTES = Threshold(1, "% of all bytes read and written")
FILE_QUERY = "tailrace query {run} --path {path} --by task,dir --agg sum:size --agg count"


def file_matches(
    found: Analyses, files: pd.DataFrame, column: str, words: str, absent: bool = False
) -> Iterator[Match]:
    """One match for the rows of `Lifetime.files` in `files`.

    Args:
        column: what they cost, bytes.
        words: the sentence, with {files} (how many), {bytes} (of all), and {path} and {most} (bytes) of the largest.
        absent: it says that no task did something, and is drawn from all of them.
    """
    cost = int(files[column].sum())
    if not LEAST_BYTES.reached(cost, found.moved_bytes):
        return
    rows = files.sort_values(column, ascending=False, kind="stable")
    path = str(rows["path"].iat[0])
    yield Match(
        title=words.format(
            files=count_text(len(rows), "file"),
            bytes=bytes_text(cost),
            path=path,
            most=bytes_text(int(rows[column].iat[0])),
        ),
        names={"path": path},
        cost_bytes=cost,
        count=len(rows),
        evidence=rows_of(rows[["path", column, "readers", "writers"]]),
        tasks=found.every_task if absent else found.users_of(rows.index),
        where=f"{path.rpartition('/')[2]} once",
    )


def bytes_by_process(rows: pd.DataFrame) -> dict[int, dict[int, int]]:
    """Process -> file -> bytes, of rows of bursts with a column process."""
    out: dict[int, dict[int, int]] = {}
    sums = rows.groupby(["process", "file"], sort=False)["bytes"].sum()
    for (process, file), moved in zip(sums.index, sums.to_numpy(), strict=True):
        out.setdefault(int(process), {})[int(file)] = int(moved)
    return out


def named_after(paths: pd.Series, known: Collection[str]) -> Bools:
    """Which of the paths are a known one with a suffix (-journal, .lock)."""
    return np.array([any(stem in known for stem in file_classes.stems(path)) for path in paths], dtype=np.bool_)


# Not counted: a file that its own writer read back (what sort and compilers put aside); one that is named after another
# file of the run, as the journal of a database, which is there to be read after a crash; and one whose name another
# file has, too, as each checkpoint that takes the place of the last one.
UNREAD = Threshold(80, "% of its bytes read by nobody")


def deleted_unread(found: Analyses) -> Iterator[Match]:
    """All such files, as one match."""
    files = found.lifetime.files
    whole = files["never_read"] & (files["read_bytes"] == 0)
    part = (files["read_bytes"] > 0) & (files["rewritten_bytes"] == 0)
    part &= files["unread_bytes"] >= UNREAD.value / 100 * files["written_bytes"]
    unread = files[files["removed"] & (whole | part)]
    unread = unread.assign(unread_bytes=unread["written_bytes"].where(whole[unread.index], unread["unread_bytes"]))
    replaced = unread["path"].isin(files["path"][files["path"].duplicated()])
    unread = unread[~named_after(unread["path"], frozenset(files["path"])) & ~replaced]
    mostly = " for the most part" if (unread["read_bytes"] > 0).any() else ""
    return file_matches(
        found,
        unread,
        "unread_bytes",
        f"{{files}} written, then deleted{mostly} unread ({{bytes}}); the largest is {{path}} ({{most}})",
        absent=True,
    )


DELETED_UNREAD = Rule(
    kind="written, then deleted unread",
    about=SPACE,
    title="Files written, then deleted without a reader",
    definition=(
        "A data file was written and removed in the run, and nobody read it, its writer neither; or it was written"
        f" once, and {UNREAD}, as where a file is expanded for its first lines. Left out are files that are named after"
        " another one of the run, as a database's journal, which is read after a crash, and those whose name another"
        " file has, too, as checkpoints that replace each other."
    ),
    advice=(
        "Do not write them: switch the output off, keep the data in memory, or let the reader take what it needs from a"
        " pipe, which ends the writer when it has that."
    ),
    source="Lee et al. 2023 (DataLife)",
    query=FILE_QUERY,
    find=deleted_unread,
    thresholds=(LEAST_BYTES, UNREAD, FLOOR),
    absence=True,
)


def never_read(found: Analyses) -> Iterator[Match]:
    """All such files, as one match."""
    if not found.inputs.m.outputs:
        return iter(())
    files = found.lifetime.files
    return file_matches(
        found,
        files[files["never_read"] & ~files["removed"]],
        "written_bytes",
        "{files} written and kept, but read by nothing but the writer ({bytes}); the largest is {path} ({most})",
        absent=True,
    )


NEVER_READ = Rule(
    kind="never read",
    about=SPACE,
    title="Files written and kept, but read by nothing but the writer",
    definition=(
        "A data file was written, not removed, and read by no other task than its writer, in a run whose workflow"
        " manager declares outputs: these are left out, and its own files. Of a run that declares none nothing tells"
        " results from what nobody needs."
    ),
    advice="Write logs and checkpoints less often, and do not write what no task needs.",
    source="Lee et al. 2023 (DataLife); Bez et al. 2022 (Drishti)",
    query=FILE_QUERY,
    find=never_read,
    thresholds=(LEAST_BYTES, FLOOR),
    absence=True,
)


def repeated_reads(found: Analyses) -> Iterator[Match]:
    """All such files, as one match."""
    files = found.lifetime.files
    return file_matches(
        found,
        files[files["again_bytes"] > 0],
        "again_bytes",
        "{bytes} were read again by what had read the same bytes before, most of {path} ({most})",
    )


REPEATED_READS = Rule(
    kind="repeated reads",
    about=SPACE,
    title="Bytes that the same task read more than once",
    definition=(
        "The bytes that tasks read of data files, less the distinct bytes that each of them read. Reads at unknown"
        " offsets are left out."
    ),
    advice="Keep the bytes in memory, read the file once in larger calls, or copy it to node-local storage first.",
    source="Lee et al. 2023 (DataLife); Bez et al. 2022 (Drishti)",
    query="tailrace query {run} --path {path} --where dir=r --by task,host,pid --agg count --agg sum:size",
    find=repeated_reads,
    thresholds=(LEAST_BYTES, FLOOR),
    change="reading",
    explains=(IO,),
)


MUCH_REWRITTEN = Threshold(10, "% of all bytes read and written")
REWRITTEN = Threshold(1, "MiB")


def repeated_writes(found: Analyses) -> Iterator[Match]:
    """All such files, as one match."""
    files = found.lifetime.files
    rows = files[files["rewritten_bytes"] > 0]
    cost = int(rows["rewritten_bytes"].sum())
    if cost < REWRITTEN.value * 2**20 or not MUCH_REWRITTEN.reached(cost, found.moved_bytes):
        return
    yield from file_matches(
        found,
        rows,
        "rewritten_bytes",
        "{bytes} were written over bytes that the same writer had written before, most of {path} ({most})",
    )


REPEATED_WRITES = Rule(
    kind="repeated writes",
    about=SPACE,
    title="Bytes that the same task wrote more than once",
    definition=(
        "The bytes that tasks wrote to data files, less the distinct bytes that each of them wrote while the file was"
        " not truncated. Writes at unknown offsets are left out."
    ),
    advice=(
        "Keep what changes in memory and write it once, at the end or at checkpoints; append to a journal in place of"
        " writing a table anew; put scratch data on node-local storage or in /dev/shm."
    ),
    source="Bez et al. 2022 (Drishti: redundant writes)",
    query="tailrace query {run} --path {path} --where dir=w --by task,offset:1MiB --agg count --agg sum:size",
    find=repeated_writes,
    thresholds=(MUCH_REWRITTEN, REWRITTEN),
)


SAME = "Use the original, rename it, or make a hard link or a reflink (cp --reflink)."
ACROSS = (
    "Write the data where it is needed in the first place, or read it where it is: no new name, hard link or reflink"
    " goes from one file system to another."
)
SAME_TOO = "Of those within a file system use the original, rename it, or make a link."
ACROSS_TOO = "What goes to another file system can only be written there in the first place, or be read where it is."
"""What is added where some copies are of the other sort than the one that is named."""


def file_copies(found: Analyses) -> Iterator[Match]:
    """All copies, as one match."""
    rows, paths = found.lifetime.copies, found.inputs.m.paths
    rows = rows[rows["evidence"].isin((KERNEL, COPIER))]
    copied = int(rows["bytes"].sum()) if len(rows) else 0
    if not LEAST_BYTES.reached(copied, found.moved_bytes):
        return
    named = pd.DataFrame({"source": paths[rows["source"]], "target": paths[rows["target"]]})
    named = named.assign(bytes=rows["bytes"].to_numpy())
    source, target = str(named["source"].iat[0]), str(named["target"].iat[0])
    most = bytes_text(int(named["bytes"].iat[0]))
    yield Match(
        title=f"{bytes_text(copied)} were copied from file to file, the largest from {source} to {target} ({most})"
        f"{more(len(rows))}",
        advice=_advice(_across(found, rows)),
        names={"path": target},
        cost_bytes=2 * copied,
        count=len(rows),
        evidence=rows_of(named),
        tasks=set(rows["task"]),
        where=f"of {source.rpartition('/')[2]}",
    )


def _across(found: Analyses, rows: pd.DataFrame) -> list[bool]:
    """Whether each copy went from one file system to another, as far as the mounts of its host are known."""
    inputs, run = found.inputs, found.inputs.run
    if run is None:
        return [False] * len(rows)
    place_of = mounts.finder(run.meta)
    host_of = dict(zip(inputs.of_who.tolist(), inputs.m.who["host"].astype(str), strict=True))
    across = []
    for task, *ends in rows[["task", "source", "target"]].itertuples(index=False):
        source, target = (place_of(host_of[task], str(inputs.m.paths[end])) for end in ends)
        across.append(source is not None and target is not None and source != target)
    return across


def _advice(across: list[bool]) -> str:
    """What to do about all copies, the one that is named first; "" for the rule's own advice."""
    if not any(across):
        return ""
    if all(across):
        return ACROSS
    return f"{ACROSS} {SAME_TOO}" if across[0] else f"{SAME} {ACROSS_TOO}"


FILE_COPIES = Rule(
    kind="file copies",
    about=SPACE,
    title="Files copied byte by byte",
    definition=(
        "A process read one file, nothing else, and wrote one other file, and the kernel moved all bytes"
        " (copy_file_range, sendfile), or it is a program that copies (cp, mv, install, rsync, scp) and went through"
        " both files from front to back. Another program that writes as many bytes as it read may have changed them,"
        " and is not told of. The cost is the bytes read and the bytes written."
    ),
    advice=SAME,
    source="Lee et al. 2023 (DataLife); cp(1), copy_file_range(2), ioctl_ficlonerange(2)",
    query="tailrace query {run} --path {path} --by task,dir --agg sum:size",
    find=file_copies,
    thresholds=(LEAST_BYTES, FLOOR),
    change="no copies",
    explains=(IO, "metadata load"),
)


def colocation_candidate(found: Analyses) -> Iterator[Match]:
    """All pairs of stages, as one match."""
    rows = found.apart
    moved = int(rows["bytes"].sum()) if len(rows) else 0
    if not LEAST_BYTES.reached(moved, found.moved_bytes):
        return
    names = found.inputs.stages["stage"].to_numpy()
    named = rows.assign(producer=names[rows["producer"]], consumer=names[rows["consumer"]])
    top = named.iloc[0]
    tasks = found.tasks_of_stages({*rows["producer"], *rows["consumer"]})
    noun = found.counted(tasks).partition(" ")[2]
    yield Match(
        title=f"{bytes_text(moved)} passed from host to host, most of it from {top['producer']} to {top['consumer']}"
        f" ({bytes_text(int(top['bytes']))} between {count_text(int(top['pairs']), 'pair')} of {noun})",
        cost_bytes=moved,
        count=int(rows["pairs"].sum()),
        evidence=rows_of(named),
        tasks=tasks,
    )


COLOCATION_CANDIDATE = Rule(
    kind="co-location candidate",
    about=SPACE,
    title="Data passed through files between tasks on different hosts",
    definition=(
        "A task read through a file what a task on another host wrote. On one host the bytes would come from its"
        " page cache and need not pass the network."
    ),
    advice="Run consumers on the host of their producers: pin the tasks, or submit both in one job.",
    source="Lee et al. 2023 (DataLife); Tang et al. 2024 (DaYu)",
    query="tailrace query {run} --where dir=r --by stage,host --agg sum:size",
    find=colocation_candidate,
    thresholds=(LEAST_BYTES, FLOOR),
)


HOSTS = Threshold(2, "hosts in the run")


def node_local_candidate(found: Analyses) -> Iterator[Match]:
    """All such files, as one match."""
    files = found.lifetime.files
    rows = files[files["node_local"] & ~files["local"] & files["intermediate"]]
    moved = int((rows["written_bytes"] + rows["read_bytes"]).sum())
    if found.inputs.m.who["host"].nunique() < HOSTS.value or not LEAST_BYTES.reached(moved, found.moved_bytes):
        return
    rows = rows.assign(moved_bytes=rows["written_bytes"] + rows["read_bytes"])
    rows = rows.sort_values("moved_bytes", ascending=False, kind="stable")
    path, most = str(rows["path"].iat[0]), int(rows["moved_bytes"].iat[0])
    yield Match(
        title=f"{count_text(len(rows), 'intermediate file')} on a shared file system used by one host each"
        f" ({bytes_text(moved)} moved); the largest is {path} ({bytes_text(most)})",
        names={"path": path},
        cost_bytes=moved,
        count=len(rows),
        evidence=rows_of(rows[["path", "moved_bytes", "written_bytes", "read_bytes"]]),
        tasks=found.users_of(rows.index),
    )


NODE_LOCAL_CANDIDATE = Rule(
    kind="node-local candidate",
    about=SPACE,
    title="Intermediate files on a shared file system that one host alone used",
    definition=(
        "A file on a shared file system was made in the run, read by another task than its writers, and used on one"
        " host only. The cost is the bytes that were written to it and read from it."
    ),
    advice="Put such files on node-local storage ($TMPDIR, /dev/shm), and copy out only what has to stay.",
    source="Tang et al. 2024 (DaYu)",
    query="tailrace query {run} --path {path} --by host,task,dir --agg sum:size",
    find=node_local_candidate,
    thresholds=(HOSTS, LEAST_BYTES, FLOOR),
    absence=True,
)


def streaming_candidate(found: Analyses) -> Iterator[Match]:
    """All pairs on the longest chain of work that could stream, as one match."""
    inputs, rows = found.inputs, found.streams
    rows = rows[rows["critical"] & (rows["gain_ns"] > 0)] if len(rows) else rows
    if len(rows) == 0 or not LEAST.reached(int(rows["gain_ns"].sum()), inputs.makespan_ns):
        return
    named = rows.assign(**{end: [inputs.called(int(task)) for task in rows[end]] for end in ("producer", "consumer")})
    top = named.iloc[0]
    path = str(top["path"])
    pair = [inputs.stage_of(int(rows[end].to_numpy()[0])) for end in ("producer", "consumer")]
    yield Match(
        title=f"{top['consumer']} read all of {path} from front to back, after {top['producer']} had written it;"
        f" through a pipe it could start up to {time_text(int(top['gain_ns']))} earlier{more(len(rows))}",
        names={"pair": ",".join(pair)},
        cost_ns=int(rows["gain_ns"].max()),
        estimate=True,
        count=len(rows),
        evidence=rows_of(named[["producer", "consumer", "path", "bytes", "gain_ns"]]),
        tasks={*rows["producer"], *rows["consumer"]},
        query="" if pair[0] != pair[1] and "," not in "".join(pair) else "tailrace.open({run}).insights().streams",
    )


STREAMING_CANDIDATE = Rule(
    kind="streaming candidate",
    about=TIME,
    title="A file that its only reader could have read while it was written",
    definition=(
        "One task wrote a file of 4 KiB (a page) or more, one other task read all of it after it was complete, each"
        " in the order of the bytes from the first to the last, and both are on the longest chain of work. The gain"
        " is at most the time between the first write and the writer's end, not more than the reader worked, and not"
        " more than `tailrace whatif` estimates for the run in which the reader does not wait for the writer's end."
        " A reader that seeks or maps the file can't read a pipe."
    ),
    advice="Connect the two tasks by a pipe or FIFO, or let the reader follow the growing file.",
    source="Lee et al. 2023 (DataLife)",
    query="tailrace whatif {run} --together {pair}",
    find=streaming_candidate,
    thresholds=(LEAST, FLOOR),
    change="a pipe in place of a file",
    absence=True,
)


DROPPED = Threshold(1, "MiB in a stage")


def read_ahead(found: Analyses) -> Iterator[Match]:
    """All stages that do so, as one match."""
    rows = call_costs.read_ahead(found.inputs)
    rows = rows[rows["ahead"] >= DROPPED.value * 2**20] if len(rows) else rows
    cost = int(rows["ahead"].sum()) if len(rows) else 0
    if not LEAST_BYTES.reached(cost, found.moved_bytes):
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


READ_AHEAD = Rule(
    kind="read ahead for nothing",
    about=SPACE,
    title="Streams that read far more than the program takes",
    definition=(
        f"Of files of data, the C library's streams (fread, fgets, fscanf, ...) read {DROPPED} or more beyond what the"
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
    find=read_ahead,
    thresholds=(DROPPED, LEAST_BYTES, FLOOR),
)


MISALIGNED = Threshold(1000, "calls")


def misaligned_calls(found: Analyses) -> Iterator[Match]:
    """All stages that do so, as one match."""
    rows = call_costs.misaligned(found.inputs)
    cost = int(rows["bytes"].sum()) if len(rows) else 0
    if not LEAST_BYTES.reached(cost, found.moved_bytes) or rows["unaligned"].sum() < MISALIGNED.value:
        return
    top = rows.iloc[0]
    path = str(top["path"])
    yield Match(
        title=f"{top['stage']}: {top['unaligned']:,} of {top['calls']:,} calls on"
        f" {count_text(int(top['files']), 'file')} of a network file system (most on {path}) begin inside of a"
        f" block of {bytes_text(int(top['block_bytes']))}, and touch one block more than they need{more(len(rows))}"
        f"{call_places.words(found.call_places, int(top['stage_code']), path=path)}",
        names={"stage": found.of_stage(str(top["stage"])), "path": path},
        cost_bytes=cost,
        count=len(rows),
        evidence=rows_of(rows.drop(columns=["stage_code", "gain_ns"])),
        tasks=found.tasks_of_stages(set(rows["stage_code"])),
    )


MISALIGNED_CALLS = Rule(
    kind="misaligned calls",
    about=SPACE,
    title="Calls that touch a block too many, on a network file system",
    definition=(
        f"More than {call_costs.UNALIGNED_SHARE:.0%} of a process's calls on a file touch one of its blocks more than"
        " as many bytes would at the begin of a block, and do not go on where the call before ended. The block is what"
        " the file system prefers to move of the file at a time (st_blksize, stat(2)), which may be several stripes."
        " The cost is at most a block for each, or as much as such a call moves. Files whose block is not known (other"
        " tracers, older traces) are left out."
    ),
    advice=(
        "Begin each part at a multiple of the file's block or stripe (`stat -c %o`, `lfs getstripe`): pad records,"
        " set HDF5's alignment (H5Pset_alignment), or MPI-IO's striping_unit."
    ),
    source="Bez et al. 2022 (Drishti: from 10% misaligned calls on)",
    query="tailrace query {run} {stage} --path {path} --by dir,blksize --agg count --agg p50:offset --agg p50:size",
    find=misaligned_calls,
    thresholds=(MISALIGNED, LEAST_BYTES, FLOOR),
)


RULES = (
    DELETED_UNREAD,
    NEVER_READ,
    REPEATED_READS,
    REPEATED_WRITES,
    FILE_COPIES,
    COLOCATION_CANDIDATE,
    NODE_LOCAL_CANDIDATE,
    STREAMING_CANDIDATE,
    READ_AHEAD,
    MISALIGNED_CALLS,
)
