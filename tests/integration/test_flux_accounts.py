"""Under Flux a task that left no trace shows in the run: the shell reads each task's account from the kernel."""

import json
import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest

import tailrace
from support.commands import run_cli
from support.truth import read_run
from tailrace.analyzer.store import ledger

STAGE = "--setattr=user.trace.stage=s"
WRITTEN = 90_000


@pytest.fixture
def work(tmp_path):
    (tmp_path / "in").write_bytes(b"x" * 5000)
    return tmp_path


def static_program(directory):
    """A static program that writes 90,000 bytes to its output."""
    source, program = directory / "static.c", directory / "static"
    size = f"static char b[{WRITTEN}];"
    source.write_text(f"#include <unistd.h>\n{size} int main() {{ return write(1, b, sizeof b) < 0; }}\n")
    if subprocess.run(["cc", "-static", "-o", program, source], capture_output=True, check=False).returncode:
        pytest.skip("nothing static can be linked here")
    return program


def run_in(instance, work, *words):
    """Runs a job in `work`; its run directory, and `flux job attach`'s result."""
    job = instance.submit(f"--cwd={work}", STAGE, *words)
    instance.wait(job)
    plain = instance.ask("job", "id", "--to=f58plain", job)
    return work / "tailrace-runs" / plain, instance.run("job", "attach", job, check=False)


def test_a_static_task_shows_with_its_bytes(traced_flux, work):
    program = static_program(work)
    run, done = run_in(traced_flux, work, "-n2", program)
    assert (done.returncode, done.stderr) == (0, "")
    coverage = tailrace.open(run).coverage
    assert set(coverage["cause"]) == {f"not traced: {ledger.WORDS['static']}"}
    # The shell's own code writes a byte in the task before it executes the program.
    assert all(WRITTEN <= written <= WRITTEN + 100 for written in coverage["kernel_written"]) and len(coverage) == 2
    assert set(coverage["exe"]) == {str(program)}
    assert "2 not traced" in run_cli("info", run).stdout


def test_the_accounts_of_traced_tasks_agree_with_the_trace(traced_flux, work):
    run, _ = run_in(traced_flux, work, "-n2", "sh", "-c", "cat in > out.$FLUX_TASK_RANK; cat in > /dev/null")
    (accounts,) = (run / "accounts").iterdir()
    rows = json.loads(accounts.read_text())
    assert accounts.stat().st_mode & 0o777 == 0o600
    assert sorted(row["pid"] for row in rows) == sorted(
        process.pid for process in tailrace.open(run).processes.itertuples() if process.exe.endswith("sh")
    )
    assert all(row["status"] == 0 and row["wchar"] >= 10_000 and row["rchar"] >= 10_000 for row in rows)
    coverage = tailrace.open(run).coverage
    assert len(coverage) == 6 and coverage["traced"].all() and (coverage["cause"] == "").all()


def test_a_killed_task_has_an_account(traced_flux, work):
    run, done = run_in(traced_flux, work, "sh", "-c", "read x < in; kill -9 $$")
    assert done.returncode == 137
    (row,) = tailrace.open(run).coverage.itertuples()
    assert (row.account, row.signal) == ("parent", signal.SIGKILL)


def test_an_untraced_job_has_none(traced_flux, work):
    job = traced_flux.submit(f"--cwd={work}", static_program(work))
    traced_flux.wait(job)
    assert not (work / "tailrace-runs").exists()


def test_a_bad_journal_directory_leaves_the_job_untraced_and_is_said(traced_flux, work):
    run, done = run_in(traced_flux, work, "--env=TAILRACE_JOURNAL_DIR=/nonexistent", "cat", "in")
    assert (done.returncode, done.stdout) == (0, "x" * 5000)
    assert "not traced: the journal directory is /nonexistent: No such file or directory: give" in done.stderr
    assert not run.exists()


def test_a_shells_run_names_the_chosen_journal_directory(traced_flux, work):
    (work / "journals").mkdir()
    run, _ = run_in(traced_flux, work, f"--env=TAILRACE_JOURNAL_DIR={work}/journals", "cat", "in")
    assert json.loads((run / "run.json").read_text())["journal_dir"] == f"{work}/journals"


def parent_of(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def test_what_a_killed_shell_left_is_recovered_when_the_run_is_read(traced_flux, work):
    script = "cat in > out; for i in 1 2 3; do read x < in; done; echo $$ > pid; sleep 600"
    job = traced_flux.submit(f"--cwd={work}", STAGE, "bash", "-c", script)
    plain = traced_flux.ask("job", "id", "--to=f58plain", job)
    run = work / "tailrace-runs" / plain
    for _ in range(600):
        with suppress(OSError, ValueError):
            task = int((work / "pid").read_text())
            break
        time.sleep(0.05)
    shell = parent_of(task)
    assert "flux-shell" in Path(f"/proc/{shell}/cmdline").read_text()
    os.kill(shell, signal.SIGKILL)
    os.kill(task, signal.SIGKILL)
    traced_flux.wait(job)
    before = len(read_run(run).events) if list((run / "trace").iterdir()) else 0
    done = run_cli("info", run)
    assert "recovered" in done.stderr, done.stderr
    assert len(read_run(run).events) > before
