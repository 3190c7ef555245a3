"""Declared graphs after the fact: what Snakemake 9.27 and Nextflow 24.10 leave, guessed, read, and refused."""

import base64
import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from support.ordinary_user import ID as STRANGER
from tailrace.base import child
from tailrace.errors import UsageError
from tailrace.integrations import importing, managers
from tailrace.integrations.importing import ImportedTask, ImportedWorkflow, Importer, with_seen_times

SCRIPT = """#!/bin/bash
### ---
### name: '{name}'
### outputs:
### - '{output}'
### ...
set -e
nxf_stage() {{
    true
    # stage input files
    rm -f in1.txt
{links}
}}

nxf_unstage() {{
    ln -s /elsewhere no_input
}}
"""
TRACE = """task_id\thash\tnative_id\tname\tstatus\texit\tsubmit\tduration\trealtime\tcpus\tmemory
1\t72/418101\t28052\tMAKE (a b)\tCOMPLETED\t0\t2026-11-22 22:58:15.551\t326ms\t30ms\t2\t1.5 GB
2\t8e/5c81f6\t28053\tSORT (1)\tFAILED\t3\t2026-11-22 22:58:16.012\t1m 4s\t35ms\t1\t-
"""


def record(folder: Path, output: str, rule: str, **keys: Any) -> None:
    encoded = base64.urlsafe_b64encode(output.encode()).decode()
    chunks = [encoded[at : at + 254] for at in range(0, len(encoded), 254)]
    file = folder.joinpath(*(f"@{chunk}" for chunk in chunks[:-1]), chunks[-1])
    file.parent.mkdir(parents=True, exist_ok=True)
    row = {
        "rule": rule,
        "input": [],
        "log": [],
        "shellcmd": "true",
        "job_hash": 1,
        "starttime": 100.5,
        "endtime": 101.0,
    }
    file.write_text(json.dumps({**row, "incomplete": False, **keys}))


@pytest.fixture
def snakemake(tmp_path: Path) -> Path:
    folder = tmp_path / "flow/.snakemake/metadata"
    folder.mkdir(parents=True)
    long = "data/" + "x" * 240 + "/é.txt"
    for number, name in enumerate(["a", long]):
        record(folder, name, "make", job_hash=number, log=["make.log"] if number else [])
    for output in ("sorted", "index"):
        record(folder, output, "sort", input=["a", long], job_hash=7, endtime=100.4)
        (tmp_path / "flow" / output).touch()
    (folder / "torn").write_text('{"rule": "so')
    record(folder, "never", "no time", starttime=1e308, endtime=1e308)
    (folder / "bm90").write_text("[]")
    return tmp_path / "flow"


def nextflow_task(
    work: Path, folder: str, name: str, output: str, inputs: tuple[str, ...] = (), code: str = "0"
) -> Path:
    path = work / folder
    path.mkdir(parents=True)
    links = "\n".join(f"    ln -s {source} in{number}.txt" for number, source in enumerate(inputs))
    (path / ".command.run").write_text(SCRIPT.format(name=name, output=output, links=links))
    (path / ".command.begin").touch()
    (path / ".exitcode").write_text(code)
    for file, at in ((".command.begin", 1_000_000_000), (".exitcode", 2_000_000_000)):
        os.utime(path / file, ns=(at, at))
    return path


@pytest.fixture
def nextflow(tmp_path: Path) -> Path:
    work = tmp_path / "flow/work"
    made = nextflow_task(work, "72/418101dccc7ff46e6806672c3ef703", "MAKE (a b)", "*.txt")
    (made / "a b.txt").touch()
    source = str(made / "a b.txt").replace(" ", "\\ ")
    nextflow_task(work, "8e/5c81f61a08180fe384ada9833b3fdc", "SORT (1)", "sorted.txt", (source,), "3")
    nextflow_task(work, "aa/0000001a08180fe384ada9833b3fdc", "OLD", "of another run")
    (tmp_path / "flow/trace.txt").write_text(TRACE)
    return tmp_path / "flow"


def imported(path: Path, kind: str | None = None) -> ImportedWorkflow:
    return importing.load(path, kind, managers.importers())[1]


@pytest.mark.parametrize("inside", [".", ".snakemake", ".snakemake/metadata"])
def test_the_jobs_of_snakemake_are_what_outputs_have_in_common(snakemake: Path, inside: str) -> None:
    workflow = imported(snakemake / inside)
    assert (workflow.manager, workflow.root, workflow.own_directories) == ("snakemake", snakemake, [".snakemake"])
    tasks = {task.names: task for task in workflow.tasks}
    long = "data/" + "x" * 240 + "/é.txt"
    assert set(tasks) == {("make:a",), (f"make:{long}",), ("sort",), ("no time",)}
    assert (workflow.ends, tasks[("no time",)].t_start_ns) == ("some", None)
    assert tasks[(f"make:{long}",)].outputs == (long, "make.log")
    assert tasks[("make:a",)].status == "", "a failed job has a record, and its output is removed"
    sort = tasks[("sort",)]
    assert (sort.stage, sort.inputs, set(sort.outputs)) == ("sort", ("a", long), {"sorted", "index"})
    assert (sort.t_start_ns, sort.t_end_ns, sort.status) == (100_400_000_000, 100_400_000_000, "done")


def test_nextflows_work_directory(nextflow: Path) -> None:
    for path in (nextflow, nextflow / "work"):
        assert len(imported(path).tasks) == 3
    workflow = imported(nextflow / "trace.txt")
    make, sort = workflow.tasks
    folder = nextflow / "work/72/418101dccc7ff46e6806672c3ef703"
    assert make.names == ("72/418101dccc7ff46e6806672c3ef703", "72/418101 MAKE (a b)", "MAKE (a b)")
    assert (make.stage, make.outputs, make.status) == ("MAKE", (str(folder / "a b.txt"),), "done")
    assert make.requested == {"cores": 2, "memory_bytes": 3 << 29}
    assert (make.t_start_ns, make.t_end_ns) == (1_000_000_000, 2_000_000_000)
    # The wrapper stages before the script's first call.
    names = {one.names[0]: one.names[0] for one in workflow.tasks}
    seen = {make.names[0]: (1_700_000_000, 1_900_000_000)}
    traced = importing.with_seen_times(workflow, names, seen).tasks[0]
    assert (traced.t_alloc_ns, traced.t_start_ns, traced.t_end_ns) == (1_000_000_000, 1_700_000_000, 1_900_000_000)
    assert sort.inputs == make.outputs and (sort.status, sort.error) == ("failed", "exit code 3")


METADATA = """dependencies:
  _source: !!set {}
  make: !!set {}
  merge: !!set {}
  sort: !!set
    make: null
hub_dependencies:
  _source: !!set {}
  make: !!set {}
  merge: !!set
    sort: null
  sort: !!set {}
step_combinations:
  _source: /somewhere/out
  make: {make_N.10: make/N.10, make_N.20: make/N.20}
  merge: {merge: merge}
  sort: {sort_N.10: sort/N.10, sort_N.20: sort/N.20}
"""
STATUS = """\
Step Name,Job ID,Workspace,State,Run Time,Elapsed Time,Start Time,Submit Time,End Time,Number Restarts,Params
make_N.10,32618,make/N.10,FINISHED,0d,0d,2026-11-22 23:14:25,2026-11-22 23:14:25,2026-11-22 23:14:25,0,N:10
make_N.20,32620,make/N.20,FINISHED,0d,0d,2026-11-22 23:14:25,2026-11-22 23:14:25,2026-11-22 23:14:25,1,N:20
sort_N.10,32736,sort/N.10,FINISHED,0d,0d,2026-11-22 23:14:26,2026-11-22 23:14:26,2026-11-22 23:14:26,0,N:10
sort_N.20,32739,sort/N.20,TIMEDOUT,0d,0d,2026-11-22 23:14:26,2026-11-22 23:14:26,2026-11-22 23:14:26,0,N:20
merge,--,merge,INITIALIZED,--,--,--,--,--,0,
"""


def test_steps_of_maestro_depend_on_those_with_their_parameters(tmp_path: Path) -> None:
    (tmp_path / "meta").mkdir()
    (tmp_path / "meta/metadata.yaml").write_text(METADATA)
    (tmp_path / "status.csv").write_text(STATUS)
    tasks = {task.names[0]: task for task in imported(tmp_path).tasks}
    assert {name: task.after for name, task in tasks.items()} == {
        "make_N.10": (),
        "make_N.20": (),
        "sort_N.10": ("make_N.10",),
        "sort_N.20": ("make_N.20",),
        "merge": ("sort_N.10", "sort_N.20"),
    }
    rows = {name: (task.stage, task.status, task.tries) for name, task in tasks.items()}
    assert rows["make_N.20"] == ("make", "done", 2) and rows["sort_N.20"] == ("sort", "timeout", 1)
    assert rows["merge"] == ("merge", "", 1) and tasks["merge"].t_start_ns is None
    (tmp_path / "meta/metadata.yaml").write_text("dependencies: [")
    with pytest.raises(UsageError, match="metadata.yaml is not YAML"):
        imported(tmp_path)


SPECIFICATION = """
description: {name: flow}
study:
    - {name: make, run: {cmd: "seq $(N)"}}
    - {name: sim, run: {cmd: "cat $(make.workspace)/made $(X)", depends: [make]}}
    - {name: one, run: {cmd: "cat $(sim.workspace)/$(MERLIN_SAMPLE_PATH)/out", depends: [sim]}}
    - {name: two, run: {cmd: "wc $(MERLIN_SAMPLE_ID)", depends: [sim]}}
    - {name: all, run: {cmd: "cat $(one.workspace)/*", depends: [one_*]}}
    - {name: after, run: {cmd: "date", depends: [all]}}
    - {name: sampled, run: {cmd: "echo $(X)", depends: [all]}}
global.parameters: {N: {values: [1, 2], label: N.%%}, M: {values: [a, b], label: M.%%}}
merlin: {samples: {column_labels: [X]}}
"""


def status_of_merlin(folder: Path, instance: str, **rows: tuple[str, str]) -> None:
    states = {
        workspace.replace("__", "/"): {"status": state, "return_code": code, "restarts": 0}
        for workspace, (state, code) in rows.items()
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "MERLIN_STATUS.json").write_text(json.dumps({instance: {"parameters": {"cmd": None}, **states}}))


def test_steps_of_merlin_depend_on_those_with_their_parameters_and_samples(tmp_path: Path) -> None:
    (tmp_path / "merlin_info").mkdir()
    (tmp_path / "merlin_info/flow.expanded.yaml").write_text(SPECIFICATION)
    good = ("FINISHED", "MERLIN_SUCCESS")
    for number in ("1", "2"):
        folder = f"N.{number}"
        status_of_merlin(tmp_path / "make" / folder, f"make_{folder}", **{f"make/{folder}": good})
        for step in ("sim", "one"):
            rows = {f"{step}/{folder}/{sample}": good for sample in ("0", "1")}
            status_of_merlin(tmp_path / step / folder, f"{step}_{folder}", **rows)
    status_of_merlin(tmp_path / "all", "all", all=("UNKNOWN", "MERLIN_UNRECOGNIZED"))
    (tmp_path / "all/MERLIN_FINISHED").touch()
    tasks = {task.names[0]: task for task in imported(tmp_path).tasks}
    both = ("sim_N.1/0", "sim_N.1/1")
    ones = tuple(f"one_N.{number}/{sample}" for number in "12" for sample in "01")
    assert {name: task.after for name, task in tasks.items() if "N.2" not in name} == {
        "make_N.1": (),
        "sim_N.1/0": ("make_N.1",),
        "sim_N.1/1": ("make_N.1",),
        "one_N.1/0": both,
        "one_N.1/1": both,
        "all": ones,
        "after": ("all",),
    }
    rows = {name: (task.stage, task.status, task.tries, task.error) for name, task in tasks.items()}
    assert rows["sim_N.2/1"] == ("sim", "done", 1, None)
    assert rows["all"] == ("all", "failed", 1, "MERLIN_UNRECOGNIZED") and tasks["all"].t_end_ns is None
    assert rows["after"] == ("after", "dep_failed", 0, None)
    (tmp_path / "make/N.1/MERLIN_STATUS.json").write_text('{"make_N.1": ')
    torn = {task.names[0]: task.status for task in imported(tmp_path).tasks}
    assert torn["make_N.1"] == "" and torn["make_N.2"] == "done"
    (tmp_path / "merlin_info/flow.expanded.yaml").write_text("study: [")
    with pytest.raises(UsageError, match="flow.expanded.yaml is not YAML"):
        imported(tmp_path)


def test_the_rules_of_makeflow(tmp_path: Path) -> None:
    rules = [
        {"command": "seq 5 > a.txt", "inputs": [], "outputs": ["a.txt"], "category": "make"},
        {
            "command": "sort -rn a.txt > a.sorted",
            "inputs": [{"dag_name": "a.txt", "task_name": "in"}],
            "outputs": ["a.sorted", "a.log"],
            "category": "sort",
            "resources": {"cores": 2, "memory": 512},
        },
    ]
    file = tmp_path / "flow.json"
    file.write_text(json.dumps({"default_category": "default", "categories": {"make": {}}, "rules": rules}))
    make, sort = imported(file).tasks
    assert (make.names, make.stage, sort.names, sort.inputs) == (("0",), "make", ("1",), make.outputs)
    assert sort.requested == {"cores": 2, "memory_bytes": 512 << 20}


def test_runs_of_a_research_object_are_joined_by_what_passed(tmp_path: Path) -> None:
    """Through a collection, and by content where the entity is another one."""
    at = "2026-11-22T23:14:45.950193"
    run = {"prov:type": {"$": "wfprov:ProcessRun", "type": "prov:QUALIFIED_NAME"}}
    label = "Run of workflow/packed.cwl#main/"
    document = {
        "activity": {
            "id:whole": {"prov:type": {"$": "wfprov:WorkflowRun"}, "prov:label": "Run of workflow/packed.cwl#main"},
            **{
                f"id:{name}": {**run, "prov:label": label + name}
                for name in ("sort", "sort_2", "merge", "count_words_3")
            },
        },
        "entity": {f"wf:main/{step}": {"prov:type": [{"$": "wfdesc:Process"}]} for step in ("sort", "merge")},
        "wasStartedBy": {"_:1": {"prov:activity": "id:sort", "prov:time": at}},
        "wasEndedBy": {"_:2": [{"prov:activity": "id:sort", "prov:time": at}]},
        "wasGeneratedBy": {
            "_:3": {"prov:entity": "id:one", "prov:activity": "id:sort"},
            "_:4": {"prov:entity": "id:two", "prov:activity": "id:sort_2"},
            "_:5": {"prov:entity": "id:two", "prov:activity": "id:whole"},
        },
        "hadMember": {
            f"_:{i}": {"prov:collection": "id:both", "prov:entity": f"id:{i}"} for i in ("one", "two", "both")
        },
        "used": {
            "_:6": {"prov:activity": "id:merge", "prov:entity": "id:both"},
            "_:7": {"prov:activity": "id:count_words_3", "prov:entity": "id:copy"},
        },
        "specializationOf": {
            "_:8": {"prov:specificEntity": "id:one", "prov:generalEntity": "data:abc"},
            "_:9": {"prov:specificEntity": "id:copy", "prov:generalEntity": "data:abc"},
        },
    }
    folder = tmp_path / "metadata/provenance"
    folder.mkdir(parents=True)
    (folder / "primary.cwlprov.json").write_text(json.dumps(document))
    workflow = imported(tmp_path)
    assert workflow.config == {"declares": "File and Directory inputs and outputs"}, "of values it tells nothing"
    tasks = {task.names[0]: task for task in workflow.tasks}
    assert {name: (task.stage, task.after) for name, task in tasks.items()} == {
        "sort": ("sort", ()),
        "sort_2": ("sort", ()),
        "merge": ("merge", ("sort", "sort_2")),
        # Its name ends in a number without being a repetition.
        "count_words_3": ("count_words_3", ("sort",)),
    }
    assert tasks["sort"].status == "done" and tasks["merge"].status == ""


def test_a_step_whose_name_ends_in_a_number_is_a_step_of_its_own(tmp_path: Path) -> None:
    """Also beside a step that has the rest as its name, of whose repetitions one could be it."""
    run = {"prov:type": {"$": "wfprov:ProcessRun", "type": "prov:QUALIFIED_NAME"}}
    names = ("echo", "echo_2", "echo_2_2", "echo_3")
    document = {
        "activity": {f"id:{name}": {**run, "prov:label": f"Run of workflow/packed.cwl#main/{name}"} for name in names},
        "entity": {f"wf:main/{step}": {"prov:type": [{"$": "wfdesc:Process"}]} for step in ("echo", "echo_2")},
    }
    folder = tmp_path / "metadata/provenance"
    folder.mkdir(parents=True)
    (folder / "primary.cwlprov.json").write_text(json.dumps(document))
    stages = {task.names[0]: task.stage for task in imported(tmp_path).tasks}
    assert stages == {"echo": "echo", "echo_2": "echo_2", "echo_2_2": "echo_2", "echo_3": "echo"}


def test_the_steps_of_a_research_object_tell_where_values_pass(tmp_path: Path) -> None:
    """Through a step that is a workflow of its own, into it and out of it."""
    tool = {"class": "CommandLineTool"}
    inner = {
        "id": "#inner",
        "class": "Workflow",
        "steps": [{"id": "#inner/add", "run": tool, "in": [{"source": "#inner/n"}]}],
        "outputs": [{"id": "#inner/out", "outputSource": "#inner/add/out"}],
    }
    main = {
        "id": "#main",
        "class": "Workflow",
        "steps": [
            {"id": "#main/count", "run": tool, "in": [{"source": "#main/file"}]},
            {"id": "#main/more", "run": "#inner", "in": [{"source": ["#main/count/n"]}]},
            {"id": "#main/use", "run": tool, "in": [{"source": "#main/more/out"}, {"valueFrom": "1"}]},
        ],
        "outputs": [],
    }
    for folder in ("metadata/provenance", "workflow"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "metadata/provenance/primary.cwlprov.json").write_text("{}")
    (tmp_path / "workflow/packed.cwl").write_text(json.dumps({"$graph": [inner, main]}))
    assert imported(tmp_path).config["stage_deps"] == [
        ["add", "more"],
        ["count", "more"],
        ["more", "add"],
        ["more", "use"],
    ]


SCONTROL = """JobId=6 JobName=make it
   UserId=root(0) GroupId=root(0)
   JobState=PENDING Reason=None Dependency=(null)
   SubmitTime=2026-11-22T23:14:20 StartTime=Unknown EndTime=Unknown
JobId=7 JobName=sort
   JobState=PENDING Reason=Dependency Dependency=afterok:6(unfulfilled),afterany:5(unfulfilled)
   NumNodes=1 NumCPUs=2 NumTasks=1
JobId=8 JobName=never
   JobState=PENDING Reason=Dependency Dependency=afterok:7+5(unfulfilled):6(unfulfilled)

JobId=6 JobName=make it JobState=COMPLETED Reason=None Dependency=(null) StartTime=2026-11-22T23:14:25 \
 EndTime=2026-11-22T23:14:26 ExitCode=0:0
JobId=7 JobName=sort JobState=FAILED Reason=NonZeroExitCode Dependency=(null) ExitCode=3:0 Command=/a b/x.sh
JobId=8 JobName=never JobState=PENDING Reason=DependencyNeverSatisfied Dependency=afterok:7(failed)
"""


def test_jobs_of_slurm_keep_the_dependencies_that_they_had(tmp_path: Path) -> None:
    file = tmp_path / "jobs.txt"
    file.write_text(SCONTROL.replace("\\\n", ""))
    tasks = {task.names[0]: task for task in imported(file).tasks}
    assert {name: (task.stage, task.after, task.status) for name, task in tasks.items()} == {
        "6": ("make it", (), "done"),
        "7": ("sort", ("6",), "failed"),
        "8": ("never", ("7",), "dep_failed"),
    }
    assert tasks["7"].vias == {"6": "afterok"} and tasks["7"].requested == {"cores": 2}


@pytest.mark.parametrize("shown_before", [True, False])
def test_what_jobs_of_slurm_waited_for_is_known_if_they_were_shown_before_they_began(
    tmp_path: Path, shown_before: bool
) -> None:
    before, after = SCONTROL.replace("\\\n", "").split("\n\n")
    (tmp_path / "jobs.txt").write_text(before + "\n" + after if shown_before else after)
    assert ("declares" in imported(tmp_path / "jobs.txt").config) != shown_before


ARRAYS = """JobId=1 ArrayJobId=1 ArrayTaskId=1-2,4%1 JobName=make JobState=PENDING Dependency=(null)
JobId=2 ArrayJobId=2 ArrayTaskId=1-2 JobName=sort JobState=PENDING Dependency=aftercorr:1_*(unfulfilled)
JobId=3 JobName=merge JobState=PENDING Reason=Dependency Dependency=afterok:1_*(unfulfilled),afterok:2_2(unfulfilled)

JobId=4 ArrayJobId=1 ArrayTaskId=1 JobName=make JobState=COMPLETED Dependency=(null) EndTime=2026-11-22T23:14:26
JobId=1 ArrayJobId=1 ArrayTaskId=2 JobName=make JobState=FAILED Dependency=(null) ExitCode=3:0
"""


def test_tasks_of_an_array_are_those_that_the_plugin_tags(tmp_path: Path) -> None:
    """Slurm 22.05 prints those that wait as one record, and gives each an id of its own when it begins."""
    file = tmp_path / "jobs.txt"
    file.write_text(ARRAYS)
    found = {task.names: (task.stage, task.after, task.status) for task in imported(file).tasks}
    assert found == {
        ("1_1", "4"): ("make", (), "done"),
        ("1_2", "1"): ("make", (), "failed"),
        ("1_4",): ("make", (), ""),
        ("2_1",): ("sort", ("1_1",), ""),
        ("2_2",): ("sort", ("1_2",), ""),
        ("3",): ("merge", ("1_1", "1_2", "1_4", "2_2"), ""),
    }


@pytest.mark.parametrize(
    ("times", "tries", "expected"),
    [
        ("exact", 1, (3.0, 4.0, 6.0)),
        ("seconds", 1, (3.0, 4.2, 6.5)),
        ("seconds", 2, (3.0, 4.2, 6.5)),
        ("polls", 1, (3.0, 4.2, 6.5)),
    ],
)
def test_times_of_whole_seconds_are_those_of_the_trace(times: str, tries: int, expected: tuple[float, ...]) -> None:
    def ns(seconds: float) -> int:
        return round(seconds * 1e9)

    def told(start: float, end: float, seen: tuple[float, float]) -> tuple[float | None, ...]:
        task = ImportedTask(("a",), "s", t_submit_ns=ns(3), t_start_ns=ns(start), t_end_ns=ns(end), tries=tries)
        workflow = ImportedWorkflow("m", "", "w", [task], times=times)  # type: ignore[arg-type]
        (found,) = with_seen_times(workflow, {"a": "tag"}, {"tag": (ns(seen[0]), ns(seen[1]))}).tasks
        return tuple((at or 0) / 1e9 for at in (found.t_submit_ns, found.t_start_ns, found.t_end_ns))

    assert told(4, 6, (4.2, 6.5)) == expected
    if times == "polls":  # which may come late
        assert told(9, 12, (4.2, 6.5)) == (3, 4.2, 6.5)
    elif times == "seconds":  # a job that made no call for long; the times of a second try
        assert told(4, 9, (5.5, 6.5)) == (3, 4, 9)
        assert told(4, 6, (3.5, 6.5)) == ((3, 4, 6.5) if tries == 2 else (3, 3.5, 6.5))


def test_a_task_that_ended_at_an_unknown_time_did_so_with_its_last_event() -> None:
    """Of a step that failed Merlin keeps no time."""
    tasks = [
        ImportedTask((name,), "s", status=status) for name, status in (("a", "failed"), ("b", "failed"), ("c", ""))
    ]
    workflow = ImportedWorkflow("m", "", "w", tasks)
    found = with_seen_times(workflow, {name: name for name in "abc"}, {"a": (1, 5), "c": (2, 6)}).tasks
    assert [task.t_end_ns for task in found] == [5, None, None]


HETEROGENEOUS = """JobId=1 JobName=make JobState=PENDING Dependency=(null) NumCPUs=1
JobId=2 HetJobId=2 HetJobOffset=0 JobName=solve JobState=PENDING Dependency=afterok:1(unfulfilled) NumCPUs=1
JobId=3 HetJobId=2 HetJobOffset=1 JobName=solve JobState=PENDING Dependency=afterok:1(unfulfilled) NumCPUs=4
JobId=4 JobName=merge JobState=PENDING Dependency=afterok:2+0(unfulfilled) NumCPUs=1

JobId=2 HetJobId=2 HetJobOffset=0 JobName=solve JobState=COMPLETED Dependency=(null) NumCPUs=1
JobId=3 HetJobId=2 HetJobOffset=1 JobName=solve JobState=COMPLETED Dependency=(null) NumCPUs=4
"""


def test_the_components_of_a_heterogeneous_job_are_one_task(tmp_path: Path) -> None:
    """Slurm 22.05 prints a record of each."""
    file = tmp_path / "jobs.txt"
    file.write_text(HETEROGENEOUS)
    found = {task.names: (task.after, task.status, task.requested["cores"]) for task in imported(file).tasks}
    assert found == {("1",): ((), "", 1), ("2",): (("1",), "done", 5), ("4",): (("2",), "", 1)}


def test_a_part_of_what_airflow_has_is_refused(tmp_path: Path) -> None:
    """Its API tells 50 instances at once unless it is asked for others."""
    tasks = [{"task_id": "make", "downstream_task_ids": ["sort"]}, {"task_id": "sort", "downstream_task_ids": []}]
    (tmp_path / "tasks.json").write_text(json.dumps({"tasks": tasks, "total_entries": 2}))
    for run in ("one", "two"):
        rows = [{"task_id": name, "dag_run_id": run, "state": "skipped"} for name in ("make", "sort")]
        for number, row in enumerate(rows):
            (tmp_path / f"{run}{number}.json").write_text(json.dumps({"task_instances": [row], "total_entries": 2}))
    assert {task.names[0]: (task.after, task.status) for task in imported(tmp_path).tasks} == {
        f"{run}/{name}": (after, "canceled")
        for run in ("one", "two")
        for name, after in (("make", ()), ("sort", (f"{run}/make",)))
    }
    (tmp_path / "one1.json").unlink()
    with pytest.raises(UsageError, match="one0.json has 1 of 2 task_instances: ask for the others"):
        imported(tmp_path)


def test_a_dag_run_of_airflow(tmp_path: Path) -> None:
    when = {"start_date": "2026-11-22T23:14:25.5+00:00", "end_date": "2026-11-22T23:14:26Z"}
    rows = [
        {"task_id": "make", "map_index": 0, "state": "success", "try_number": 1, **when},
        {"task_id": "make", "map_index": 1, "state": "failed", "try_number": 2, **when},
        {"task_id": "sort", "map_index": -1, "state": "upstream_failed", "try_number": 0, "start_date": None},
    ]
    rows = [{"dag_id": "flow", "dag_run_id": "manual__1", "operator": "BashOperator", **row} for row in rows]
    tasks = [{"task_id": "make", "downstream_task_ids": ["sort"]}, {"task_id": "sort", "downstream_task_ids": []}]
    (tmp_path / "tasks.json").write_text(json.dumps({"tasks": tasks, "total_entries": 2}))
    with pytest.raises(UsageError, match="has no task_instances"):
        imported(tmp_path, "airflow")
    (tmp_path / "instances.json").write_text(json.dumps({"task_instances": rows, "total_entries": 3}))
    workflow = imported(tmp_path)
    found = {task.names[0]: (task.after, task.status, task.tries) for task in workflow.tasks}
    made = ("manual__1/make[0]", "manual__1/make[1]")
    assert workflow.name == "flow" and found == {
        made[0]: ((), "done", 1),
        made[1]: ((), "failed", 2),
        "manual__1/sort": (made, "dep_failed", 0),
    }
    assert workflow.tasks[0].t_start_ns == 1_795_389_265_500_000_000


def test_what_is_written_has_the_dependencies_of_the_files(nextflow: Path, tmp_path: Path) -> None:
    workflow = imported(nextflow)
    traced = {"72/418101dccc7ff46e6806672c3ef703", "by its output"}
    written = {task.outputs[0]: "by its output" for task in workflow.tasks if task.stage == "SORT"}
    names, by_file = importing.traced_names(workflow.tasks, traced, lambda: written, nextflow)
    assert by_file == 1 and "by its output" in names.values()
    importing.write(tmp_path, "nextflow", workflow, "w", nextflow, names)
    (file,) = (tmp_path / "declared").iterdir()
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    deps = {line["task"]: [dep["task"] for dep in line["deps"]] for line in lines if line["type"] == "task"}
    assert deps["by its output"] == ["72/418101dccc7ff46e6806672c3ef703"]
    assert sorted(line["status"] for line in lines if line["type"] == "end") == ["done", "done", "failed"]


@pytest.mark.parametrize(("ends", "word"), [("all", None), ("some", "some"), ("none", False)])
def test_what_is_written_says_whether_ends_are_told(ends: Any, word: Any, tmp_path: Path) -> None:
    workflow = ImportedWorkflow("m", "", "w", [ImportedTask(("a",), "s")], ends=ends)
    importing.write(tmp_path, "m", workflow, "w", tmp_path, {"a": "a"})
    (file,) = (tmp_path / "declared").iterdir()
    assert json.loads(file.read_text().splitlines()[0])["config"].get("ends") == word


def test_what_can_not_be_imported_is_refused(tmp_path: Path, nextflow: Path) -> None:
    other = tmp_path / "notes.txt"
    other.write_text("no trace")
    damaged = tmp_path / "damaged.json"
    damaged.write_text('{"tasks": [5], "task_instances": 7, "rules": [], "workflow": [], "schemaVersion": 1}')
    for path, kind, words in (
        (tmp_path / "gone", None, "there is no"),
        (other, None, "is nothing that can be imported"),
        (other, "galaxy", "there is no kind 'galaxy'"),
        (other, "nextflow", "is neither a trace file"),
        (other, "wfformat", "is not JSON"),
        (tmp_path, "snakemake", "has no .snakemake/metadata"),
        (damaged, None, "is nothing that can be imported"),
        (Path("/dev/zero"), "slurm", "is neither a file nor a folder"),
    ):
        with pytest.raises(UsageError, match=words):
            imported(path, kind)
    (nextflow / "work").rename(nextflow / "elsewhere")
    with pytest.raises(UsageError, match="-work-dir"):
        imported(nextflow / "trace.txt")


def test_what_is_no_whole_file_is_told(tmp_path: Path, nextflow: Path) -> None:
    """A pipe in the place of a file would keep who opens it waiting for ever."""
    torn = tmp_path / "torn.json"
    torn.write_text('{"workflow": {"specification": ')
    with pytest.raises(UsageError, match=r"^[^;]*torn.json is not JSON, or not all of it was written"):
        imported(torn)
    (tmp_path / "api").mkdir()
    os.mkfifo(tmp_path / "api/tasks.json")
    with pytest.raises(UsageError, match=r"is nothing that can be imported .*tasks.json is not a file"):
        imported(tmp_path / "api")
    (folder,) = (nextflow / "work/8e").iterdir()
    (folder / ".exitcode").unlink()
    os.mkfifo(folder / ".exitcode")
    assert len(imported(nextflow).tasks) == 3
    (folder / ".command.run").unlink()
    os.mkfifo(folder / ".command.run")
    with pytest.raises(UsageError, match=r".command.run is not a file"):
        imported(nextflow)


def test_a_fault_of_an_importer_is_an_error_of_the_file(tmp_path: Path) -> None:
    def broken(path: Path) -> Any:
        raise KeyError("tasks")

    one = ImportedWorkflow("m", "", "w", [ImportedTask(("a",), "s"), ImportedTask(("a",), "s")])
    importer, twice = (Importer(kind, "a thing", broken, read) for kind, read in (("x", broken), ("y", lambda _: one)))
    with pytest.raises(UsageError, match="is not a thing that can be read"):
        importing.read(importer, tmp_path)
    with pytest.raises(UsageError, match="two tasks 'a'"):
        importing.read(twice, tmp_path)
    lost = ImportedWorkflow("m", "", "w", [ImportedTask(("a",), "s", after=("b",))])
    with pytest.raises(UsageError, match="'a' depends on 'b', which is not among its tasks"):
        importing.read(Importer("z", "a thing", broken, lambda _: lost), tmp_path)
    large = tmp_path / "large"
    with large.open("w") as file:
        file.truncate(2 << 30)
    with pytest.raises(UsageError, match="larger than"):
        importing.read(twice, large)


BOMBS = {
    "aliases": "a: &a [x,x,x,x,x,x,x,x,x,x]\n"
    + "".join(f"{chr(98 + i)}: &{chr(98 + i)} [{','.join([f'*{chr(97 + i)}'] * 10)}]\n" for i in range(9)),
    "itself": "a: &a [*a]\n",
    "nested": "[" * 100_000,
}


@pytest.mark.parametrize("bomb", sorted(BOMBS))
def test_a_yaml_file_that_expands_without_end_is_refused(tmp_path: Path, bomb: str) -> None:
    file = tmp_path / "merlin_info/s.expanded.yaml"
    file.parent.mkdir()
    file.write_text(BOMBS[bomb])
    with pytest.raises(UsageError, match=r"expands to more than 50,000,000 values|is not YAML"):
        imported(tmp_path, "merlin")


def test_a_table_without_end_is_refused(tmp_path: Path, nextflow: Path) -> None:
    (tmp_path / "meta").mkdir()
    steps = "step_combinations: {a: [a]}\ndependencies: {}\nhub_dependencies: {}\n"
    (tmp_path / "meta/metadata.yaml").write_text(steps)
    for file in (tmp_path / "status.csv", nextflow / "work/8e/5c81f61a08180fe384ada9833b3fdc/.exitcode"):
        with file.open("w") as opened:
            opened.truncate(60 << 30)
    with pytest.raises(UsageError, match=r"status.csv is larger than 1,024 MiB"):
        imported(tmp_path, "maestro")
    assert len(imported(nextflow).tasks) == 3


@pytest.mark.parametrize(("takes", "said"), [("memory", "MiB of memory"), ("time", "more than 0.5 s")])
def test_what_reading_a_source_takes_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, takes: str, said: str
) -> None:
    def read(path: Path) -> ImportedWorkflow:
        if takes == "time":
            time.sleep(3600)
        return ImportedWorkflow("m", "", "x" * (200 << 20), [])

    monkeypatch.setattr(importing, "_LIMITS", child.Limits(0.5 if takes == "time" else 600, 100 << 20))
    with pytest.raises(UsageError, match=rf"reading it takes .*{said}.*: no workflow is that large"):
        importing.load(tmp_path, None, [Importer("x", "a thing", lambda _: True, read)])


@pytest.mark.root("makes a link of another user's")
def test_a_link_that_another_user_made_is_not_followed(tmp_path: Path, nextflow: Path) -> None:
    trace = nextflow / "trace.txt"
    trace.rename(nextflow / "kept.txt")
    trace.symlink_to(nextflow / "kept.txt")
    assert len(imported(trace).tasks) == 2, "one's own is"
    os.chown(trace, STRANGER, STRANGER, follow_symlinks=False)
    with pytest.raises(UsageError, match="can't be imported|can't read|nothing that can be imported"):
        imported(trace)


def noted(nextflow: Path, rows: list[dict[str, Any]], stages: Sequence[tuple[str, str]] = ()) -> None:
    """What tailrace.config leaves of a run. rows: those of tasks, over what all have."""
    every = {"work": None, "cached": False, "inputs": [], "outputs": [], "after": []}
    tasks = [{"process": row["name"].partition(" ")[0], **every, **row} for row in rows]
    (nextflow / ".nextflow/tailrace").mkdir(parents=True)
    text = json.dumps({"tasks": tasks, "stages": stages, "host": "n1", "pid": 7})
    (nextflow / ".nextflow/tailrace/mad_pike.json").write_text(text)


def test_nextflows_notes_tell_the_files_and_values_of_tasks(nextflow: Path) -> None:
    make = (nextflow / "work/72/418101dccc7ff46e6806672c3ef703").as_uri()
    sort = (nextflow / "work/8e/5c81f61a08180fe384ada9833b3fdc").as_uri()
    noted(
        nextflow,
        [
            {"name": "MAKE (a b)", "work": f"{make}/", "outputs": ["file:///store/a%20b.txt"]},
            {
                "name": "SORT (1)",
                "work": f"{sort}/",
                "inputs": ["file:///store/a%20b.txt", "s3://bucket/x"],
                "after": [0, 2],
            },
            {"name": "KEPT", "cached": True, "outputs": ["file:///store/kept"]},
        ],
        [("MAKE", "SORT")],
    )
    workflow = imported(nextflow / "trace.txt")
    tasks = {task.label: task for task in workflow.tasks}
    assert tasks["MAKE (a b)"].outputs == ("/store/a b.txt",)
    assert tasks["SORT (1)"].inputs == ("/store/a b.txt", "s3://bucket/x")
    assert tasks["SORT (1)"].after == ("72/418101dccc7ff46e6806672c3ef703", "KEPT")
    assert (tasks["KEPT"].status, tasks["KEPT"].tries) == ("memoized", 0), "its outputs were stored by another run"
    assert workflow.via == "future" and workflow.config["stage_deps"] == [["MAKE", "SORT"]]
    assert workflow.config["own_processes"] == [{"host": "n1", "pid": 7}]


def test_notes_of_another_run_are_not_those_of_a_trace_file(nextflow: Path) -> None:
    noted(nextflow, [{"name": "OLD", "work": (nextflow / "work/aa/0000001a08180fe384ada9833b3fdc").as_uri()}])
    workflow = imported(nextflow / "trace.txt")
    assert {task.label for task in workflow.tasks} == {"MAKE (a b)", "SORT (1)"}
    assert "stage_deps" not in workflow.config and workflow.config["declares"]


@pytest.mark.parametrize(
    ("pattern", "matched"),
    [
        ("*.{html,zip}", ["a.html", "b.zip"]),
        ("{a,{b,c}}.*", ["a.html", "b.zip"]),
        ("*", ["a.html", "b.zip", "d", "in0.txt.bak"]),
        (".h*", [".hidden"]),
        ("**.txt", ["d/deep.txt"]),
        ("d/*", ["d/deep.txt"]),
        ("{" * 50, []),
        ("/etc/*", []),
    ],
)
def test_a_pattern_of_nextflow_has_the_outputs_that_nextflow_finds(
    nextflow: Path, pattern: str, matched: list[str]
) -> None:
    """Braces are alternatives; what is hidden, and what was staged, is no output."""
    folder = nextflow_task(nextflow / "work", "bb/1111", "FIND", pattern, ("/elsewhere/in.txt",))
    (folder / "d").mkdir()
    for name in ("a.html", "b.zip", ".hidden", "in0.txt", "in0.txt.bak", "d/deep.txt"):
        (folder / name).touch()
    (task,) = (one for one in imported(nextflow).tasks if one.label == "FIND")
    assert [str(Path(path).relative_to(folder)) for path in task.outputs] == matched


def test_an_output_that_nextflow_keeps_elsewhere_is_declared_there(nextflow: Path) -> None:
    """storeDir: of a pattern nobody can tell which of the folder's files are the task's."""
    for number, (output, kept) in enumerate((("a.txt", ["/store dir/a.txt"]), ("*.txt", []))):
        folder = nextflow_task(nextflow / "work", f"cc/{number}", f"KEEP{number}", output)
        script = folder / ".command.run"
        move = '\nnxf_unstage() {\n        nxf_fs_move "$name" /store\\ dir || true\n}\n'
        script.write_text(script.read_text() + move)
        (task,) = (one for one in imported(nextflow).tasks if one.label == f"KEEP{number}")
        assert list(task.outputs) == kept


def test_what_another_task_takes_is_an_output_even_where_it_was_moved_since(nextflow: Path) -> None:
    folder = nextflow_task(nextflow / "work", "dd/1111", "MOVED", "*.txt")
    nextflow_task(nextflow / "work", "dd/2222", "TAKES", "out", (str(folder / "gone.txt"),))
    tasks = {task.label: task for task in imported(nextflow).tasks}
    assert tasks["MOVED"].outputs == (str(folder / "gone.txt"),)


def test_a_task_without_a_folder_is_that_of_its_row(nextflow: Path) -> None:
    """`exec:` runs in Nextflow itself."""
    trace = nextflow / "trace.txt"
    head, first, *_ = trace.read_text().splitlines()
    row = dict(zip(head.split("\t"), first.split("\t"), strict=False))
    row |= {"hash": "ee/333333", "name": "NATIVE (2)", "native_id": "-"}
    trace.write_text(trace.read_text() + "\t".join(row.values()) + "\n")
    (task,) = (one for one in imported(trace).tasks if one.stage == "NATIVE")
    assert (task.names, task.status) == (("ee/333333 NATIVE (2)",), "done")
