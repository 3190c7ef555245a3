"""Which files are data, which are software, a stream or the system's, by who reads them and how."""

from __future__ import annotations

from typing import Any

import pytest

from support.flowcase import Story
from tailrace.analyzer.edges import event_fold, file_classes
from tailrace.analyzer.model import dataflow


class TestClasses:
    def classes(self, story: Story, **values: Any) -> dict[tuple[int, str], str]:
        table = event_fold.build(story.run())
        processes = story.run().processes
        m = dataflow.build(table, processes, **values)
        who = m.who["pid"].to_numpy()[m.bursts["who"]]
        paths = m.paths[m.bursts["file"].to_numpy()]
        return {(int(p), str(f)): file_classes.CLASSES[c] for p, f, c in zip(who, paths, m.cls, strict=True)}

    @pytest.mark.parametrize(
        ("server", "other", "wanted"),
        [
            ("flux-broker", "", "manager"),
            ("flux-broker", "slurmctld", "manager"),
            ("flux-broker", "cat", "data"),
            ("flux-shell", "", "data"),
            ("flux-broker-2", "", "data"),
        ],
    )
    def test_what_only_managers_servers_write_and_read_is_theirs(self, server: str, other: str, wanted: str) -> None:
        story = Story()
        story.process(1, f"/opt/bin/{server}")
        story.write("/scratch/ada/state/content.sqlite", 0, 100, pid=1)
        if other:
            story.process(2, f"/opt/bin/{other}")
            story.read("/scratch/ada/state/content.sqlite", 0, 100, pid=2)
        assert set(self.classes(story).values()) == {wanted}

    def test_what_a_managers_server_only_reads_is_not_its_own(self) -> None:
        story = Story()
        story.process(1, "/opt/bin/flux-broker")
        story.read("/scratch/ada/mesh", 0, 100, pid=1)
        assert set(self.classes(story).values()) == {"data"}

    @pytest.mark.parametrize(
        ("exe", "argv", "path", "wanted"),
        [
            ("/usr/bin/python3.11", "python3 x.py", "/usr/lib/python3.11/os.py", "data"),
            ("/usr/bin/python3.11", "python3 /srv/flow.py", "/srv/flow.py", "software"),
            ("/usr/bin/python3.11", "python3 -c pass /srv/flow.py", "/srv/flow.py", "data"),
            ("/usr/bin/perl", "perl -ne print /srv/x.pl", "/srv/x.pl", "data"),
            ("/usr/bin/perl", "perl -I lib /srv/x.pl", "/srv/x.pl", "software"),
            ("/usr/bin/bash", "bash -c true /srv/x.sh", "/srv/x.sh", "data"),
            ("/usr/bin/bash", "bash -ec true /srv/x.sh", "/srv/x.sh", "data"),
            ("/usr/bin/bash", "bash -e /srv/x", "/srv/x", "software"),
            ("/usr/bin/bash", "bash -euo pipefail /srv/x", "/srv/x", "software"),
            ("/usr/bin/dash", "sh +x -- /srv/x", "/srv/x", "software"),
            ("/usr/bin/dash", "sh - /srv/x", "/srv/x", "software"),
            ("/usr/bin/python3.11", "python3 - /srv/x.txt", "/srv/x.txt", "data"),
            ("/usr/bin/python3.11", "python3 -W ignore -u /srv/flow.py", "/srv/flow.py", "software"),
            ("/usr/bin/python3.11", "python3 -Wignore /srv/flow.py", "/srv/flow.py", "software"),
            ("/usr/bin/python3.11", "python3 -Im mod /srv/flow.py", "/srv/flow.py", "data"),
            ("/usr/bin/gcc", "gcc /srv/main.c", "/srv/main.c", "data"),
            ("/usr/bin/bash", "bash /srv/x.sh", "/srv/x.sh", "software"),
            ("/usr/bin/python3.11", "", "/usr/lib/python3.11/site-packages/a-1.dist-info/METADATA", "software"),
            ("/srv/bin/prog", "/srv/bin/prog", "/srv/bin/prog", "software"),
            ("/usr/bin/wc", "wc -l", "/usr/lib/python3.11/os.py", "data"),
            ("/usr/bin/indexer", "indexer /usr/lib/python3.11", "/usr/lib/python3.11/os.py", "data"),
            ("/usr/bin/python3.11", "python3 count.py /usr/share/dict/words", "/usr/share/dict/words", "data"),
            ("/usr/bin/hmmsearch", "hmmsearch db", "/usr/share/hmmer/x.tab", "software"),
            ("/usr/bin/sort", "sort", "/usr/share/dict/words", "data"),
            ("/usr/bin/sort", "sort", "/usr/share/locale/de/LC_MESSAGES/coreutils.mo", "system"),
            ("", "", "/usr/lib/python3.11/os.py", "software"),
            ("/usr/bin/python3.11", "", "/home/u/venv/lib/python3.11/site-packages/numpy/core/_core.so", "software"),
            ("/usr/bin/python3.11", "", "/home/u/flow.py", "data"),
            ("/usr/bin/cat", "", "/home/u/__pycache__/flow.cpython-311.pyc", "software"),
            ("/usr/bin/cat", "", "/proc/self/maps", "system"),
            ("/usr/bin/cat", "", "/dev/shm/segment", "data"),
            ("/usr/bin/python3.11", "", "/dev/shm/sem.mp-7a3xq1", "system"),
            ("/home/u/ranks", "", "/dev/shm/vader_segment.vm.0.6db70001.3", "system"),
            ("/home/u/ranks", "", "/tmp/ompi.vm.0/pid.329/0/debugger_attach_fifo", "system"),
            ("/home/u/ranks", "", "/home/u/ompi.vm.0", "data"),
            ("/usr/bin/python3.11", "", "/dev/shm/pym-15313-79mfz6hh", "system"),
            ("/usr/bin/python3.11", "", "/tmp/pymp-21tnsrmt/pym-15313-79mfz6hh", "system"),
            ("/usr/bin/python3.11", "", "/dev/shm/psm_4cfd7b21", "data"),
            ("/usr/bin/cat", "", "/etc/passwd", "system"),
            ("/usr/bin/gcc", "", "/usr/include/stdio.h", "software"),
        ],
    )
    def test_reads(self, exe: str, argv: str, path: str, wanted: str) -> None:
        story = Story()
        story.process(1, exe, argv)
        story.read(path)
        assert self.classes(story) == {(1, path): wanted}

    @pytest.mark.parametrize(
        ("path", "wanted"),
        [
            ("/w/runinfo/000/parsl.log", "manager"),
            ("/w/runinfo/000/task_logs/0.stdout", "data"),
            ("/w/runinfo/results.dat", "data"),
            ("/w/.snakemake/log/1.log", "manager"),
            ("/dev/shm/plasma7P95iL", "manager"),
            ("/home/u/airflow/airflow.db-wal", "manager"),
            ("/w/.snakemake/shadow/x/out.dat", "data"),
            ("/w/work/ab/cdef/.command.run", "manager"),
            ("/w/work/ab/cdef/out.dat", "data"),
            ("/tmp/dask-scratch-space/global.lock", "manager"),
            ("/tmp/dask-scratch-space-0/worker-1a2b.dirlock", "manager"),
            ("/w/dask-scratch-space/worker-1a2b/storage/%28%27sum-9c%27%2C%200%29#0", "manager"),
            ("/w/dask-scratch-space/worker-1a2b/own.dat", "data"),
            ("/tmp/worker-0-71/cache/file-7-59f2d2d7cc0b902aebfb88c118c3b7f9-a", "manager"),
            ("/tmp/worker-0-71/t.3/result", "manager"),
            ("/tmp/worker-0-71/task.3/argument", "manager"),
            ("/tmp/worker-0-71/trash/jlsuqyo.1795460204525807/map", "manager"),
            ("/tmp/worker-0-71/trash/hgrfgvi.1795460229730398", "manager"),
            ("/tmp/worker-0-71/func.4/.taskvine.stdout", "manager"),
            ("/tmp/worker-0-71/libr.3/library_code.py", "manager"),
            ("/w/runinfo/vine/vine-cache/vine-library-cache/cd6f436947a8/library_info.clpk", "manager"),
            ("/tmp/worker-0-71/worker.stdout.v6UIkW", "manager"),
            ("/tmp/worker-0-71/t.3/scratch", "data"),
            ("/tmp/worker-0-71/trash/jlsuqyo.1795460204525807/scratch", "data"),
            ("/tmp/lost-ada-20261123185700838974-fgvopoi3/0000/argument", "manager"),
            ("/shared/1795460.9/wq/function_data/0003/function", "manager"),
            ("/w/runinfo/vine/2026-11-23T185701/vine-logs/transactions", "manager"),
            ("/elsewhere/of-parsl/htex/interchange.log", "manager"),
            ("/study/status.csv", "manager"),
            ("/study/sim/N.1/02/MERLIN_STATUS.json", "manager"),
            ("/study/status.csv.old", "data"),
            ("/elsewhere/of-parsl/declared.dat", "data"),
        ],
    )
    def test_a_managers_own_files_are_no_data(self, path: str, wanted: str) -> None:
        """Whoever writes them: a join body's log lines are written under its task."""
        story = Story()
        story.write(path, task="t", stage="s")
        declared = ["/elsewhere/of-parsl/declared.dat"]
        assert self.classes(story, declared=declared, manager=["/elsewhere/of-parsl", "/study/status.csv"]) == {
            (1, path): wanted
        }

    def test_one_file_may_be_software_to_one_and_data_to_another(self) -> None:
        story = Story()
        story.process(1, "/usr/bin/perl")
        story.process(2, "/usr/bin/wc")
        story.read("/usr/share/perl/5.36/Config.pm", pid=1)
        story.read("/usr/share/perl/5.36/Config.pm", pid=2)
        assert set(self.classes(story).values()) == {"software", "data"}

    @pytest.mark.parametrize("task", ["t", None])
    def test_a_source_is_software_to_its_importer(self, task: str | None) -> None:
        story, lib = Story(), "/usr/lib/python3.11"
        story.process(1, "/usr/bin/python3")
        cache = f"{lib}/json/__pycache__/tool.cpython-311.pyc"
        story.event("openat", cache, file=None, ftype="none", errno=2, ret=-1)
        story.read(f"{lib}/json/tool.py", task=task)  # no .pyc: imported
        story.read("/srv/app/__pycache__/made.cpython-311.pyc.140")
        story.write("/srv/app/__pycache__/made.cpython-311.pyc.140")
        story.rename("/srv/app/__pycache__/made.cpython-311.pyc.140", "/srv/app/__pycache__/made.cpython-311.pyc")
        story.read("/srv/app/made.py", task=task)  # the .pyc was written: imported
        story.read(f"{lib}/__pycache__/ast.cpython-311.opt-1.pyc")
        story.read(f"{lib}/ast.py", task=task)  # a good .pyc: inspected, or, in a task, read as text
        story.read(f"{lib}/csv.py", task=task)  # never imported: read as text
        got = {path: cls for (_, path), cls in self.classes(story).items() if path.endswith(".py")}
        assert got == {
            f"{lib}/json/tool.py": "software",
            "/srv/app/made.py": "software",
            f"{lib}/ast.py": "data" if task else "software",
            f"{lib}/csv.py": "data",
        }

    def test_a_virtual_environment_is_a_prefix_of_software(self) -> None:
        story = Story()
        story.process(1, "/usr/bin/python3")
        for path in ("/srv/env-1/pyvenv.cfg", "/srv/env-1/share/tool.json", "/srv/env-12/x.json"):
            story.read(path)
        assert [self.classes(story)[(1, p)] for p in ("/srv/env-1/share/tool.json", "/srv/env-12/x.json")] == [
            "software",
            "data",
        ]

    def test_the_runs_own_files_are_not_its_data(self) -> None:
        story = Story()
        story.write("/runs/story/declared/x.jsonl")
        story.write("/runs/story-2/x.jsonl")
        got = self.classes(story, own=["/runs/story"])
        assert [got[(1, p)] for p in ("/runs/story/declared/x.jsonl", "/runs/story-2/x.jsonl")] == ["system", "data"]

    def test_declared_written_and_named_files_are_data(self) -> None:
        story = Story()
        story.process(1, "/usr/bin/python3")
        for path in ("/usr/lib/app/a.tab", "/opt/app/made.so", "/usr/share/app/b.tab", "/opt/app/c.tab"):
            story.read(path)
        story.write("/opt/app/made.so")
        got = self.classes(story, declared=["/usr/lib/app/a.tab"], data=["/usr/share/app/*"], software=["*.so"])
        assert [got[(1, p)] for p in sorted(p for _, p in got)] == ["software", "software", "data", "data"]

    def test_a_pipe_is_a_stream(self) -> None:
        story = Story()
        story.read("pipe:[5]", None, ftype="fifo")
        assert set(self.classes(story).values()) == {"stream"}

    @pytest.mark.parametrize(("reader", "wanted"), [(1, "system"), (2, "stream")])
    @pytest.mark.parametrize(
        ("sent", "got", "ftype"),
        [
            ("pipe:[7]", "pipe:[7]", "fifo"),
            ("unix:[5]->[6]", "unix:[6]->[5]", "sock"),
            ("tcp:127.0.0.1:4->127.0.0.1:5", "tcp:127.0.0.1:5->127.0.0.1:4", "sock"),
        ],
    )
    def test_what_one_process_sends_itself_wakes_its_threads(
        self, reader: int, wanted: str, sent: str, got: str, ftype: str
    ) -> None:
        """Whichever tasks they serve; a child that reads is another process."""
        story = Story()
        ends = [f"n1:0:8:{ino if ftype == 'sock' else 7}:" for ino in (5, 6)]
        story.write(sent, None, 1, ftype=ftype, file=ends[0], pid=1, task="a")
        story.read(got, None, 1, ftype=ftype, file=ends[1], pid=reader, task="b")
        assert set(self.classes(story).values()) == {wanted}
