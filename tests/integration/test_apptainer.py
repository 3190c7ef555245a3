"""Containers of Apptainer under `tailrace run`, with nothing else typed: $APPTAINER, or the one on PATH.

The image is a folder of empty places and links; the host's programs are bound into it.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from support.commands import TAILRACE
from support.harm import Harm
from support.killed_script import SCRIPT, moved
from support.run_files import Trace

APPTAINER = os.environ.get("APPTAINER") or shutil.which("apptainer") or ""
MUSL = """
#include <stdio.h>
int main(void) { puts("of musl"); return 3; }
"""


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that is an image, with nothing in it."""
    if not APPTAINER:
        pytest.skip("no apptainer: give it by $APPTAINER")
    folder = tmp_path_factory.mktemp("images") / "image"
    for name in ("usr", "etc", "proc", "sys", "dev", "tmp", "var/tmp", "root", "home"):
        (folder / name).mkdir(parents=True)
    for name in ("bin", "sbin", "lib", "lib64"):
        (folder / name).symlink_to(f"usr/{name}")
    (folder / ".singularity.d").mkdir()
    (folder / ".singularity.d/startscript").write_text('#!/bin/sh\nexec cp "$@"\n')
    (folder / ".singularity.d/startscript").chmod(0o755)
    tried = subprocess.run([*words(folder, folder.parent), "true"], capture_output=True, text=True, check=False)
    if tried.returncode:
        pytest.skip(f"apptainer can't make a container here: {tried.stderr}")
    return folder


def words(image: Path, work: Path, *options: str) -> list[str]:
    """A command line that runs the next words in the image, in the folder `work`, which is bound."""
    binds = ["--bind", "/usr,/etc", "--bind", str(work), "--pwd", str(work)]
    return [APPTAINER, "--silent", "exec", "--userns", *options, *binds, str(image)]


OPTIONS = [[], ["--cleanenv"], ["--containall"], ["--pid", "--ipc"], ["--no-eval"], ["--writable-tmpfs"], ["--no-home"]]


@pytest.mark.parametrize("options", OPTIONS, ids=" ".join)
def test_a_container_is_recorded_as_outside(image: Path, harm: Harm, tmp_path: Path, options: list[str]) -> None:
    done = harm("sh", "-c", SCRIPT)
    outside = moved(done.run, done.work)
    assert ("log", "w", 18) in outside
    for name in ("run", "work", "untraced"):
        shutil.rmtree(tmp_path / name)
    done = harm(*words(image, tmp_path / "work", *options), "sh", "-c", SCRIPT, same_stderr=True)
    assert moved(done.run, done.work) == outside
    assert "nothing lost" in done.stderr


@pytest.mark.parametrize("set_before", [{}, {"APPTAINER_BINDPATH": "/opt"}, {"SINGULARITY_BINDPATH": "/opt"}], ids=str)
def test_the_program_sees_its_own_environment(
    image: Path, harm: Harm, tmp_path: Path, set_before: dict[str, str]
) -> None:
    show = "env | grep -E '^(LD_PRELOAD|TAILRACE_|MINE)'; ls -d /opt; cp given copied"
    done = harm(
        *words(image, tmp_path / "work"),
        "sh",
        "-c",
        show,
        same_stderr=True,
        env={**set_before, "APPTAINERENV_MINE": "1"},
    )
    assert done.stdout.startswith("MINE=1\n") and "LD_PRELOAD" not in done.stdout
    done.check_written("copied")


def test_tags_reach_the_container(image: Path, harm: Harm, tmp_path: Path) -> None:
    done = harm(*words(image, tmp_path / "work", "--cleanenv"), "cp", "given", "copied")
    trace = Trace(done.run)
    assert trace.tags(trace.of(done.work / "copied"), "stage") == {("harm",)}


def test_a_container_that_is_written_to_runs_untraced(image: Path, harm: Harm, tmp_path: Path) -> None:
    """No place could be made in it for what is bound, and Apptainer would give up."""
    done = harm(*words(image, tmp_path / "work", "--writable"), "sh", "-c", "echo written; exit 3", same_stderr=True)
    assert done.stdout == "written\n"


def instance(image: Path, work: Path, name: str) -> str:
    """Starts an instance whose first program copies a file, runs another in it, and stops it."""
    start = f"{APPTAINER} --silent instance start --userns --bind /usr,/etc,{work} {image} {name}"
    inside = (
        f"{APPTAINER} --silent exec instance://{name} sh -c 'while [ ! -s {work}/copied ]; do sleep 0.1; done; echo it'"
    )
    return f"{start} {work}/given {work}/copied && timeout 20 {inside}; {APPTAINER} --silent instance stop {name}"


def test_an_instances_own_program_is_traced_and_others_run(image: Path, harm: Harm, tmp_path: Path) -> None:
    name = f"tailrace-{os.getpid()}"
    done = harm("sh", "-c", instance(image, tmp_path / "work", name), same_stderr=True)
    assert done.stdout == "it\n"
    done.check_written("copied")


def test_an_image_of_musl_runs_untraced(image: Path, harm: Harm, tmp_path: Path) -> None:
    if shutil.which("musl-gcc") is None:
        pytest.skip("no musl-gcc")
    folder = tmp_path / "image"
    for name in ("bin", "etc", "proc", "sys", "dev", "tmp", "var/tmp", "root", "home", "lib"):
        (folder / name).mkdir(parents=True)
    options = ["-x", "c", "-", "-o", folder / "bin/program"]
    subprocess.run(["musl-gcc", *options], input=MUSL, text=True, check=True)
    shutil.copy("/usr/lib/x86_64-linux-musl/libc.so", folder / "lib/ld-musl-x86_64.so.1")
    done = harm(APPTAINER, "--silent", "exec", "--userns", folder, "/bin/program", same_stderr=True)
    assert done.stdout == "of musl\n"


PIPELINE = """
process SORT {
    output: path "sorted.txt"
    script: "seq 100 | sort -rn > sorted.txt"
}
workflow { SORT() }
"""


def test_nextflows_tasks_in_a_container_have_their_tags(
    image: Path, run_traced, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if shutil.which("nextflow") is None:
        pytest.skip("no nextflow on PATH: see www.nextflow.io")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/apptainer").symlink_to(APPTAINER)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    (tmp_path / "main.nf").write_text(PIPELINE)
    options = "apptainer {{ enabled = true; runOptions = '--userns --bind /usr,/etc' }}\nprocess.container = '{}'\n"
    (tmp_path / "container.config").write_text(options.format(image))
    adapter = subprocess.run(
        [*TAILRACE, "adapter", "nextflow"], capture_output=True, text=True, check=True
    ).stdout.strip()
    run_traced("nextflow", "-c", adapter, "-c", "container.config", "run", "main.nf")
    (written,) = tmp_path.glob("work/*/*/sorted.txt")
    trace = Trace(tmp_path / "run")
    moves = [event for event in trace.of(written) if event["args"].get("dir") == "w"]
    assert moves and {event["args"]["stage"] for event in moves} == {"SORT"}
