"""Programs that confine themselves, and programs under another's seccomp filter: they end as they do untraced.

Where the filter allows the tracer's calls, I/O is recorded; where it doesn't, the ledger names the filter.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import tailrace
from support.commands import TAILRACE
from support.harm import Harm, Outcome, Program
from tailrace import _native
from tailrace.analyzer.store import ledger

GIVEN = len("given to the program\n")
CORE = Path(__file__).resolve().parents[2] / "core" / "src"


@pytest.mark.parametrize("how", ["strict", "strict_call", "errno", "kill"])
@pytest.mark.parametrize("times", ["3", "6000"])
def test_a_program_that_confines_itself(harm: Harm, program: Program, how: str, times: str) -> None:
    harm(program("seccomp"), how, times)


def test_calls_refused_to_the_tracer_by_a_filter_are_counted_losses(harm: Harm, program: Program) -> None:
    done = harm(program("seccomp"), "errno", "20000")
    (row,) = tailrace.open(done.run).coverage.to_dict("records")
    lost = sum(int(n.replace(",", "")) for n in re.findall(r"([\d,]+) events? LOST", done.stderr))
    assert len(done.seen.events) + lost >= 40_000, done.stderr
    assert lost == 0 or row["cause_key"] == "lost"


ASKS = """
import ctypes
PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 22, 2
assert ctypes.CDLL(None).prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, None, 0, 0) == -1
with open("after", "w") as after:
    after.write("after")
"""


def test_to_ask_the_kernel_for_filters_confines_nobody(harm: Harm) -> None:
    """As libseccomp does when a program that is linked with it begins."""
    done = harm(sys.executable, "-c", ASKS)
    done.check_written("after")
    assert not [event for event in done.seen.events if event["args"].get("untraced")]


def make_sandbox(kind: str, program: Program, tmp_path: Path) -> Path:
    """A program that sets a filter and executes another under it; `kind`: dynamic or static."""
    if kind == "dynamic":
        return program("sandbox")
    source, static = Path(__file__).parents[1] / "programs" / "sandbox.c", tmp_path / "sandbox"
    built = subprocess.run(["cc", "-static", "-w", "-o", static, source], capture_output=True, check=False)
    if built.returncode:
        pytest.skip("nothing can be linked statically here")
    return static


def copied(done: Outcome) -> bool:
    """cp under the filter was seen whole."""
    seen = done.seen
    return (seen.read(done.work / "given"), seen.written(done.work / "copied")) == (GIVEN, GIVEN)


ACTIONS = ["kill", "ask", "nothing", "errno", "allow"]
SANDBOXES = [
    *(("dynamic", call, action) for call in ("prctl", "seccomp") for action in ACTIONS),
    *(("static", "prctl", action) for action in ACTIONS),
    # Nobody sees it set: what is left of the tracer's calls in the same process would meet another action.
    ("dynamic", "raw", "allow"),
]


@pytest.mark.parametrize(("kind", "call", "action"), SANDBOXES)
def test_a_program_under_another_ones_filter(
    harm: Harm, program: Program, tmp_path: Path, kind: str, call: str, action: str
) -> None:
    sandbox = make_sandbox(kind, program, tmp_path)
    done = harm(sandbox, action, call, "cp", "given", "copied", same_stderr=True)
    assert (done.work / "copied").exists()
    asked = kind == "dynamic" and call != "raw"
    if asked and action == "allow":
        assert copied(done)
    if not asked or action in ("kill", "ask", "nothing"):
        assert done.seen.written(done.work / "copied") == 0
        row = tailrace.open(done.run).coverage.to_dict("records")[-1]
        because = ledger.WORDS["confined" if asked else "linker"]
        if kind == "static":
            because = ledger.WORDS["static"]
        assert row["share"] < ledger.COMPLETE_SHARE and row["cause"].endswith(because), row


def test_a_filter_on_all_processes_does_not_end_tracing(harm: Harm, program: Program, tmp_path: Path) -> None:
    """As in a container: the launcher is under it too."""
    out, work = tmp_path / "run", tmp_path / "work"
    work.mkdir()
    (work / "given").write_text("given to the program\n")
    words = [*TAILRACE, "run", "-o", out, "--", "cp", "given", "copied"]
    subprocess.run([program("sandbox"), "allow", "prctl", *words], cwd=work, check=True)
    rows = tailrace.open(out).coverage
    assert rows["traced"].all() and rows["captured_written"].sum() == GIVEN, rows.to_string()


def test_filters_are_examined_in_a_fork_too(harm: Harm, program: Program) -> None:
    """Every process of a shell's pipe, one of them under a filter of its own."""
    sandbox = program("sandbox")
    script = f"cat given | {sandbox} kill prctl cat | {sandbox} allow seccomp cat > copied; cat copied > again"
    done = harm("sh", "-c", script, same_stderr=True)
    assert done.seen.read(done.work / "given") == GIVEN
    assert done.seen.written(done.work / "copied") == done.seen.written(done.work / "again") == GIVEN


VFORKED = """
import os, subprocess, sys
subprocess.run([sys.argv[1], "kill", "prctl", "cp", "given", "copied"], check=True)
with open("after", "w") as after:
    after.write("after")
"""


def test_the_starter_of_a_confined_program_stays_traced(harm: Harm, program: Program) -> None:
    harm(sys.executable, "-c", VFORKED, program("sandbox")).check_written("after")


@pytest.mark.parametrize("options", [["--seccomp", "3"], []], ids=["filter", "namespaces"])
def test_bubblewrap(harm: Harm, tmp_path: Path, options: list[str]) -> None:
    bwrap = shutil.which("bwrap")
    if bwrap is None:
        pytest.skip("no bwrap (Debian: bubblewrap)")
    words = [bwrap, "--dev-bind", "/", "/", "--unshare-ipc"]
    if subprocess.run([*words, "true"], capture_output=True, check=False).returncode:
        pytest.skip("bwrap may not make name spaces here")
    script = " ".join([*words, *options, "cp", "given", "copied"])
    if options:
        # Allows everything; the file is what libseccomp writes: struct sock_filter after struct sock_filter.
        (tmp_path / "filter").write_bytes(bytes.fromhex("0600000000 00ff7f".replace(" ", "")))
        script += f" 3<{tmp_path / 'filter'}"
    assert copied(harm("bash", "-c", script))


def test_the_launcher_counts_its_filters(program: Program) -> None:
    code = "from tailrace import _native; print(_native.seccomp_filters())"
    command = [sys.executable, "-c", code]
    under = subprocess.run([program("sandbox"), "allow", "prctl", *command], capture_output=True, text=True, check=True)
    assert int(under.stdout) == (_native.seccomp_filters() or 0) + 1


def test_every_system_call_of_the_core_is_examined() -> None:
    """kOwnCalls of format/seccomp_filter.cc has all numbers that the core's sources call the kernel by."""
    listed = set(re.findall(r"SYS_\w+", (CORE / "format" / "seccomp_filter.cc").read_text()))
    called = {"SYS_waitid", "SYS_pipe2"}
    for source in CORE.rglob("*.*"):
        if source.name in ("seal_dead.cc", "journal_use.cc"):
            continue  # run in the launcher
        if source.name in ("follow.cc", "library_access.cc"):
            continue  # run in a process without a filter only
        if source.name == "container_start.cc":
            continue  # repeats the execve by which its process was just started
        called |= set(re.findall(r"(?:sys::|\b)call\((SYS_\w+)", source.read_text()))
        called |= set(re.findall(r'"a"\((SYS_\w+)\)', source.read_text()))
    assert called - listed == set()
