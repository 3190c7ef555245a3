"""The lineage of which exports are made: versions of files, the jobs that read and wrote them, their order."""

from __future__ import annotations

import pandas as pd

from support.export_runs import NAMES, loop_run
from support.flowcase import Story
from tailrace.analyzer.exports import lineage


class TestLineage:
    def test_a_loop_unrolls_into_versions(self) -> None:
        flow = lineage.lineage(loop_run())
        assert [(a.number, a.external) for a in flow.artifacts] == [(0, True), (1, False), (2, False), (3, False)]
        assert [(j.inputs, j.outputs, j.parents) for j in flow.jobs] == [
            ([0], [1], set()),
            ([1], [2], {0}),
            ([2], [3], {1}),
            ([3], [], {2}),
        ]

    def test_own_bytes_of_a_job_are_no_input(self) -> None:
        story = Story()
        story.write("/d/scratch", stage="s", task="a")
        story.read("/d/scratch", stage="s", task="a")
        (job,) = lineage.lineage(story.run()).jobs
        assert (job.inputs, job.outputs, job.parents) == ([], [0], set())

    def test_an_appender_reads_the_version_that_it_continued(self) -> None:
        story = Story()
        story.create("/d/log", stage="s", task="a", pid=1)
        story.write("/d/log", stage="s", task="a", pid=1)
        story.write("/d/log", 100, stage="s", task="b", pid=2)
        story.read("/d/log", 0, 200, stage="s", task="b", pid=2)
        flow = lineage.lineage(story.run())
        assert [(j.inputs, j.outputs, j.parents) for j in flow.jobs] == [([], [0], set()), ([0], [1], {0})]
        assert [a.size for a in flow.artifacts] == [100, 200]
        assert flow.artifacts[1].base is flow.artifacts[0]

    def test_a_replaced_file_is_a_version_of_its_path(self) -> None:
        story = Story()
        story.write("/d/x", stage="s", task="a", pid=1)
        story.read("/d/x", stage="s", task="b", pid=2)
        story.event("unlink", "/d/x", stage="s", task="c", pid=3)
        story.identities["/d/x"] = "8:1:9"
        story.write("/d/x", size=7, stage="s", task="c", pid=3)
        flow = lineage.lineage(story.run())
        assert [(a.path, a.number, a.versions, a.size) for a in flow.artifacts] == [
            ("/d/x", 1, 2, 100),
            ("/d/x", 2, 2, 7),
        ]

    def test_declared_dependencies_are_parents_too(self) -> None:
        story = Story()
        story.write("/d/x", stage="s", task="a", pid=1)
        story.write("/d/y", stage="s", task="b", pid=2)
        deps = pd.DataFrame([{"workflow": "w", "task": "b", "dep": "a", "via": "future", "path": None}])
        assert [job.parents for job in lineage.lineage(story.run(declared_deps=deps)).jobs] == [set(), {0}]

    def test_untagged_processes_stay_when_a_task_has_their_bytes(self) -> None:
        story = Story()
        story.write("/d/x", stage="s", task="a", pid=1)
        story.read("/d/x", pid=2)
        story.write("/d/copy", pid=2)
        story.write("/d/unrelated", pid=3)
        jobs = lineage.lineage(story.run()).jobs
        assert [job.key[-1] for job in jobs] == ["a", "2"]
        assert jobs[1].parents == {0}

    def test_the_escape_is_one_to_one(self) -> None:
        names = [lineage.escaped(name, ":") for name in NAMES]
        assert len(set(names)) == len(NAMES)
        assert lineage.escaped("a b%é") == "a%20b%25%C3%A9"
