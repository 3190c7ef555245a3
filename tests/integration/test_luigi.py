"""Luigi's adapter beyond the conformance suite: tasks that are yielded, that were done before, that are killed, and
Luigi called by a program."""

import json
from pathlib import Path

import pytest

from support.managers import only_run, run_python

pytest.importorskip("luigi", reason="needs Luigi: pip install luigi")

PROGRAM = """
import os
import signal
import luigi
import tailrace.luigi

class Part(luigi.Task):
    name = luigi.Parameter()
    def output(self):
        return luigi.LocalTarget(f"{self.name}.part")
    def run(self):
        with self.output().open("w") as file:
            file.write("x" * 1000)

class Given(luigi.ExternalTask):
    def output(self):
        return luigi.LocalTarget("given")

class All(luigi.Task):
    def requires(self):
        return [Part("early"), Given()]
    def output(self):
        return luigi.LocalTarget("all")
    def run(self):
        parts = yield [Part("a/b, 1"), Part("c")] if @NESTED@ else []
        with self.output().open("w") as file:
            for part in [*parts, *self.input()]:
                file.write(part.open().read())

class Killed(luigi.Task):
    worker_timeout = 1000  # so that it has a process of its own
    def run(self):
        os.kill(os.getpid(), signal.SIGKILL)

tailrace.luigi.trace()
tailrace.luigi.trace()
luigi.build([All(), Killed()], local_scheduler=True, log_level="WARNING", workers=@WORKERS@)
"""


@pytest.mark.parametrize("workers", [1, 2])
def test_tasks_of_a_program(tmp_path: Path, workers: int) -> None:
    (tmp_path / "early.part").write_text("early")
    (tmp_path / "given").write_text("given")
    (tmp_path / "a").mkdir()
    program = PROGRAM.replace("@WORKERS@", str(workers)).replace("@NESTED@", "True")
    done = run_python(tmp_path, "-c", program)
    assert done.returncode == 0 and "tracing into" in done.stderr and "tailrace: can't" not in done.stderr, done.stderr
    assert len((tmp_path / "all").read_text()) == 2010
    trace, run = only_run(tmp_path)

    # Luigi writes to a file beside, and renames it.
    written = [event for event in trace.events if "c.part-luigi" in (event["path"] or "") and event["args"].get("size")]
    assert {tags[:3] for tags in trace.tags(written, "workflow", "stage", "tag.try")} == {("All", "Part", "0")}
    tasks = run.declared_tasks.set_index("name")
    assert tasks["status"].to_dict() == {
        "All()": "done",
        "Part(name=early)": "memoized",
        "Part(name=a/b, 1)": "done",
        "Part(name=c)": "done",
        "Killed()": "killed",
    }
    assert "exit code -9" in tasks.loc["Killed()", "error"]
    names = tasks.reset_index().set_index("task")["name"].to_dict()
    deps = {(names[row.task], names[row.dep], row.via) for row in run.declared_deps.itertuples()}
    assert deps == {("All()", f"Part(name={name})", "file") for name in ("early", "a/b, 1", "c")}
    reads = {(names[r.task], Path(r.path).name) for r in run.declared_files.itertuples() if r.direction == "r"}
    assert reads == {("All()", name) for name in ("early.part", "given", "b, 1.part", "c.part")}


def test_another_version_runs_untraced(tmp_path: Path) -> None:
    for name in ("early.part", "given"):
        (tmp_path / name).write_text(name)
    change = "import luigi.worker as w\nold = w.Worker._run_task\nw.Worker._run_task = lambda self, *a: old(self, *a)\n"
    program = change + PROGRAM.replace("@WORKERS@", "1").replace("@NESTED@", "False")
    done = run_python(tmp_path, "-c", program)
    said = [line for line in done.stderr.splitlines() if line.startswith("tailrace: ")]
    assert len(said) == 1 and "another _run_task" in said[0], done.stderr
    assert (tmp_path / "all").exists() and not (tmp_path / "tailrace-runs").exists()


def test_the_file_by_which_luigi_locks_is_its_own(tmp_path: Path) -> None:
    (tmp_path / "flow.py").write_text(PROGRAM.partition("class Given")[0])
    words = ["-m", "tailrace.luigi", "--module", "flow", "Part", "--name", "a", "--local-scheduler"]
    done = run_python(tmp_path, *words, "--lock-pid-dir", "locks")
    assert done.returncode == 0, done.stderr
    _, run = only_run(tmp_path)
    (row,) = run.declared_workflows.to_dict("records")
    assert json.loads(row["config"])["own_directories"] == [str(tmp_path / "locks")]
