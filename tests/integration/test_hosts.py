"""Several hosts in one run: containers of one machine, each with a host name and process numbers of its own."""

import json
import os
import shutil
import subprocess
import time
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

import tailrace
from support import counted, reader
from support.commands import TAILRACE, run_cli
from support.harm import Program
from tailrace import _native

CONTAINER = ["unshare", "--uts", "--pid", "--fork", "--mount-proc"]


@pytest.fixture
def container() -> list[str]:
    """What stands before a host name and a command that is to run as the first process of a container of that name."""
    probe = [*CONTAINER, "true"]
    if shutil.which("unshare") is None or subprocess.run(probe, check=False, capture_output=True).returncode:
        pytest.skip("this machine gives no namespaces of host names and process numbers")
    return [*CONTAINER, "sh", "-c", 'hostname "$0" && exec "$@"']


Cli = Callable[..., "subprocess.CompletedProcess[str]"]
NODE = ["unshare", "--uts", "--mount", "sh", "-c", 'mount -t tmpfs none /dev/shm && hostname "$0" && exec "$@"']


def test_hosts_that_no_launcher_of_ours_is_on_describe_themselves(cli: Cli, tmp_path: Path) -> None:
    """Each has its own memory for journals and sees the files of the other; nothing is left of either in the end."""
    if not shutil.which("strace") or subprocess.run([*NODE, "probe", "true"], check=False).returncode:
        pytest.skip("there is no strace, or this machine gives no namespaces of host names and mounts")
    run = tmp_path / "run"
    given = json.loads(cli("env", "-o", run, "--format", "json", cwd=tmp_path).stdout)
    preload = "export LD_PRELOAD=$P; exec sh -c"
    for host, stage, script in (
        ("far-a", "make", "seq 20000 > a.txt; true"),
        ("far-b", "sort", "sort -r a.txt > b.txt; true"),
    ):
        env = {**os.environ, **given, "P": given["LD_PRELOAD"], "TAILRACE_TAGS": f"stage={stage}"}
        del env["LD_PRELOAD"]
        # Others may mount something on this machine meanwhile.
        traced = f"cat /proc/self/mountinfo > {host}.mounts; "
        traced += f"strace -f -o {tmp_path / stage} sh -c '{preload} \"{script}\"'"
        subprocess.run([*NODE, host, "sh", "-c", traced], cwd=tmp_path, env=env, check=True, timeout=120)
    described = {path.name: json.loads(path.read_bytes()) for path in (run / "hosts").iterdir()}
    assert set(described) == {"far_a.json", "far_b.json"}
    for name, one in described.items():
        assert one["host"] == name.removesuffix(".json").replace("_", "-") and one["boot_id"] == _native.boot_id()
        mounts = sorted(_native.mounts(str(tmp_path / f"{one['host']}.mounts")))
        assert sorted(tuple(mount.values()) for mount in one["mounts"]) == mounts
    for stage in ("make", "sort"):
        # The first process of a node describes it; the others find its mark, with one call.
        calls = [line for line in (tmp_path / stage).read_text().splitlines() if ".host" in line or "/hosts/" in line]
        assert sum("/hosts/" in line for line in calls) <= 3 and sum(".host" in line for line in calls) == 2, calls
    opened = tailrace.open(run)
    assert list(opened.dataflow("stage").edges()) == [("stage:/make", "stage:/sort")] and opened.problems == []
    for path in (run / "hosts").iterdir():
        path.unlink()
    opened = opened.refresh()
    assert not opened.dataflow("stage").edges() and "far-a; far-b" in opened.problems[0]
    shown = cli("report", run).stdout
    assert "before the run, or another host" in " ".join(shown.split()) and "far-a; far-b" in shown
    told = " ".join(cli("file", run, "a.txt").stdout.split())
    assert told.count("as it was before the run, or as another host wrote it") == 1
    assert "before the run, or another host" in " ".join(cli("file", run, "b.txt", "--up").stdout.split())
    subprocess.run([*NODE, "far-b", *TAILRACE, "seal", run], check=True, timeout=120, capture_output=True)
    assert "far-a" in tailrace.open(run).problems[0] and "far-b" not in tailrace.open(run).problems[0]
    assert [path.name for path in (run / "hosts").iterdir()] == ["far_b.json"]


def test_containers_of_a_machine_exchange_files(container: list[str], tmp_path: Path) -> None:
    steps = {
        "make": "seq 20000 > a.txt",
        "sort": "sort -r a.txt > b.txt",
        "count": "cat b.txt | wc -l > c.txt; ln b.txt d.txt; mv c.txt e.txt",
    }
    for number, (stage, script) in enumerate(steps.items()):
        words = [*TAILRACE, "run", "-q", "-o", "run", "--tag", f"stage={stage}", "--", "sh", "-c", script]
        command = [*container, f"pod-{number}", *words] if number else words
        subprocess.run(command, cwd=tmp_path, check=True, timeout=120)
    run = tailrace.open(tmp_path / "run")
    assert set(run.info()["hosts"]) >= {"pod-1", "pod-2"} and len(run.info()["hosts"]) == 3
    handed = {(who, to): data["bytes"] for who, to, data in run.dataflow("stage").edges(data=True)}
    size = (tmp_path / "a.txt").stat().st_size
    assert handed == {
        ("stage:/make", "stage:/sort"): size,
        ("stage:/sort", "stage:/count"): size,
        ("stage:/count", "stage:/count"): size,  # the pipe
    }


def sealed_of_each(log: Path, run: Path) -> bool:
    """Whether the trace, which is being written, has a segment of each of two threads."""
    try:
        found = counted.recorded(run)
    except (EOFError, OSError, zlib.error):
        return False
    tids = counted.done(log)
    return len(tids) == 2 and all(
        sum(offset < counted.SECOND_BASE for offset in found.get(tid, ())) > 4000 for tid in tids
    )


@pytest.mark.root("mounts a file system")
def test_a_host_that_is_lost_with_its_journals(container: list[str], program: Program, tmp_path: Path) -> None:
    """Two hosts, each with memory of its own, trace into one run. One is killed whole while its program reads: what it
    had handed over is in the trace, and the reader says of which process the end is not known."""
    own_memory = [*container[:-1], 'hostname "$0" && mount -t tmpfs none /dev/shm && exec "$@"']
    lost, kept = tmp_path / "log.lost", tmp_path / "log.kept"
    traced = [*TAILRACE, "run", "-q", "-o", str(tmp_path / "run"), "--"]
    ended = [*traced, str(program("counted")), str(kept), "2", "30000", "end", str(counted.SECOND_BASE)]
    subprocess.run([*own_memory, "kept", *ended], cwd=tmp_path, check=True, timeout=120)
    endless = [*traced, str(program("counted")), str(lost), "2", "0", "wait"]
    words = [*own_memory, "lost", *endless]
    words.insert(words.index("--fork"), "--kill-child")
    alive, held = os.pipe()
    host = subprocess.Popen(words, cwd=tmp_path, pass_fds=[held])
    os.close(held)
    while not lost.exists() or not sealed_of_each(lost, tmp_path / "run"):
        assert host.poll() is None
        time.sleep(0.01)
    host.kill()
    host.wait()
    # The kernel ends the container's processes after that: the pipe ends with the last one.
    assert os.read(alive, 1) == b""
    os.close(alive)
    for file in (tmp_path / "run" / "trace").glob("lost*.pfw.gz"):
        # The sealer may have been amid a block.
        offset, length, _ = reader.scan_blocks(str(file))[0][-1]
        os.truncate(file, offset + length)
    assert counted.check(kept, tmp_path / "run", counted.SECOND_BASE) == 60_000
    found = counted.recorded(tmp_path / "run")
    for tid, count in counted.done(lost).items():
        times = [times for offset, times in found[tid].items() if offset < counted.SECOND_BASE]
        assert set(times) == {1}
        assert 4000 < len(times) < count, "what was recorded, or waited for the sealer, when the host was lost"
    run = tailrace.open(tmp_path / "run")
    causes = {(row.host, Path(str(row.exe)).name): row.cause for row in run.coverage.itertuples() if row.traced}
    assert "still running" in causes["lost", "counted"]
    assert causes["kept", "counted"] == ""
    assert "1 of 2 processes without accounting" in run_cli("info", tmp_path / "run").stdout
    told = json.loads(run_cli("host", tmp_path / "run", "--format", "json").stdout)["hosts"]
    assert [one["host"] for one in told] == ["kept", "lost"] and all(one["processes"] == 1 for one in told)
    assert "host lost\n  1 process\n" in run_cli("host", tmp_path / "run").stdout
    damaged = max((tmp_path / "run" / "trace").glob("kept*.pfw.gz"), key=lambda file: file.stat().st_size)
    damaged.write_bytes(damaged.read_bytes()[:-1000])
    of = {one.host: {row["cause"] for row in one.losses} for one in tailrace.open(tmp_path / "run").hosts()}
    assert "torn" in of["kept"] and "torn" not in of["lost"]
