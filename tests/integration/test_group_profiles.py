"""`tailrace stage`, `host` and `rank` of a real run of two stages and six ranks, of which one writes most."""

import json
import subprocess
from pathlib import Path

import pytest

import tailrace
from support.commands import TAILRACE, run_cli
from tailrace.errors import QueryError

MAKE = """
for i in 0 1 2 3 4 5; do
  PMI_RANK=$i dd if=/dev/zero of=d$i bs=1M count=$((i == 0 ? 30 : 2)) status=none
done
"""


def test_a_stage_a_host_and_a_rank_in_short(tmp_path: Path) -> None:
    work, run = tmp_path / "work", tmp_path / "run"
    work.mkdir()
    for stage, script in (("make", MAKE), ("use", "cat d1 d2 > all")):
        words = [*TAILRACE, "run", "-q", "--tag", f"stage={stage}", "--tag", f"task={stage}-1", "-o", str(run)]
        subprocess.run([*words, "--", "bash", "-c", script], cwd=work, check=True, timeout=120)
    opened = tailrace.open(run)
    make = opened.stage("make")
    assert (make.tasks, make.processes, make.written_bytes) == (1, 7, 40 << 20)
    assert make.targets == [{"stage": "use", "bytes": 4 << 20}] and make.sources == []
    assert opened.stage("use").sources == [{"stage": "make", "bytes": 4 << 20}]
    assert make.files[0] == {"path": str(work / "d0"), "read_bytes": 0, "written_bytes": 30 << 20}
    assert all(row["stragglers"] == ["0"] for row in make.accesses["balance"] if row["figure"] == "bytes")
    rank = opened.rank(0)
    assert rank.written_bytes == 30 << 20 and [row["name"] for row in rank.others] == list("012345")
    (host,) = {process.host for process in opened.processes.itertuples()}
    assert opened.host(host).written_bytes == 44 << 20
    (facts,) = opened.hosts()
    assert opened.host(host).facts == facts and facts.host == host and facts.losses == []
    (here,) = (one for one in facts.mounts if one.written_bytes)
    assert (here.written_bytes, here.read_bytes, here.files) == (44 << 20, 4 << 20, 7)
    found = subprocess.run(["findmnt", "-nro", "TARGET,FSTYPE", "-T", work], capture_output=True, text=True, check=True)
    assert found.stdout.split() == [here.point, here.fstype]
    assert 0 < here.written_ns < facts.processes * (opened.t1_ns - opened.t0_ns) and facts.sealing_ns > 0
    assert run_cli("host", run).stdout == run_cli("host", run, host).stdout
    with pytest.raises(QueryError, match=r"no stage 'mak' \(did you mean 'make'\?\); there is 'make', 'use'"):
        opened.stage("mak")
    for kind, name in (("stage", "make"), ("host", host), ("rank", "0")):
        text = run_cli(kind, run, name)
        assert text.returncode == 0 and text.stdout.startswith(f"{kind} {name}\n"), text.stderr
        assert max(map(len, text.stdout.splitlines())) <= 80 or len(str(work)) > 60
        more = {"collectives": opened.collectives.of_rank(name)} if kind == "rank" else {}
        assert json.loads(run_cli(kind, run, name, "--format", "json").stdout) == json.loads(
            json.dumps({**getattr(opened, kind)(name).to_json(), **more})
        )
    assert "the 5 other ranks" in run_cli("rank", run, "0").stdout


def test_a_process_has_the_rank_of_its_program(tmp_path: Path) -> None:
    """Not the one with which it was forked: Open MPI's daemon on a node is a task of srun, with a rank of that."""
    script = "for i in 0 1 2; do PMI_RANK=$i PMI_SIZE=3 dd if=/dev/zero of=d$i bs=1k count=$((i + 1)) status=none; done"
    words = [*TAILRACE, "run", "-q", "-o", "run", "--", "env", "SLURM_JOB_ID=1", "SLURM_PROCID=0", "bash", "-c", script]
    subprocess.run(words, cwd=tmp_path, check=True, timeout=120)
    opened = tailrace.open(tmp_path / "run")
    ranks = opened.process_ranks
    assert sorted(zip(ranks["rank"], ranks["world_size"].fillna(0), strict=True)) == [
        ("0", 0),
        ("0", 3),
        ("1", 3),
        ("2", 3),
    ]
    assert opened.rank(2).written_bytes == 3 << 10
    (group,) = [one for one in opened.ranks() if one.world_size]
    assert [row["written_bytes"] for row in group.rows] == [1 << 10, 2 << 10, 3 << 10] and group.missing == []
    shown = json.loads(run_cli("rank", tmp_path / "run", "--format", "json").stdout)
    assert shown["programs"] == [json.loads(json.dumps(one.to_json())) for one in opened.ranks()]
    assert "  3 of 3 ranks, 3 processes on 1 host" in run_cli("rank", tmp_path / "run").stdout
