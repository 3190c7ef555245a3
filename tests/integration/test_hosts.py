"""Several hosts in one run: containers of one machine, each with a host name and process numbers of its own."""

import shutil
import subprocess
from pathlib import Path

import pytest

import tailrace
from support.commands import TAILRACE

CONTAINER = ["unshare", "--uts", "--pid", "--fork", "--mount-proc"]


@pytest.fixture
def container() -> list[str]:
    """What stands before a host name and a command that is to run as the first process of a container of that name."""
    probe = [*CONTAINER, "true"]
    if shutil.which("unshare") is None or subprocess.run(probe, check=False, capture_output=True).returncode:
        pytest.skip("this machine gives no namespaces of host names and process numbers")
    return [*CONTAINER, "sh", "-c", 'hostname "$0" && exec "$@"']


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
