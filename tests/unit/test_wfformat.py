"""Reading WfFormat: order, both ends of a dependency, ids that we escaped; and what is refused, with its reason."""

import json
from pathlib import Path
from typing import Any

import pytest

from tailrace.errors import UsageError
from tailrace.integrations import importing, wfformat


def task(name: str, parents: tuple[str, ...] = (), children: tuple[str, ...] = (), **keys: Any) -> dict[str, Any]:
    return {"name": name, "id": name, "parents": list(parents), "children": list(children), **keys}


def instance(*tasks: dict[str, Any], **keys: Any) -> dict[str, Any]:
    return {"name": "w", "schemaVersion": "1.6", "workflow": {"specification": {"tasks": list(tasks)}}, **keys}


def read(tmp_path: Path, data: Any) -> wfformat.Instance:
    path = tmp_path / "i.json"
    path.write_text(data if isinstance(data, str) else json.dumps(data))
    return wfformat.read(path)


def test_parents_precede_children_and_either_end_declares_a_dependency(tmp_path: Path) -> None:
    found = read(tmp_path, instance(task("c", parents=("b",)), task("b"), task("a", children=("b", "c"))))
    assert {name: sorted(t.parents) for name, t in found.tasks.items()} == {"a": [], "b": ["a"], "c": ["a", "b"]}
    assert list(found.tasks) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("name", "stage"),
    [("mProject_ID0000006", "mProject"), ("bwa", "bwa"), ("step-12", "step"), ("17", "17"), ("sha256", "sha256")],
)
def test_the_stage_is_the_name_without_its_number(tmp_path: Path, name: str, stage: str) -> None:
    assert read(tmp_path, instance(task(name))).tasks[name].stage == stage


@pytest.mark.parametrize(
    ("programs", "stages"), [(("sort", "sort"), {"step"}), (("sort", "uniq"), {"step_1", "step_2"})]
)
def test_numbered_names_of_several_programs_are_stages_of_their_own(
    tmp_path: Path, programs: tuple[str, str], stages: set[str]
) -> None:
    done = [{"id": f"step_{n}", "command": {"program": program}} for n, program in enumerate(programs, 1)]
    data = instance(task("step_1"), task("step_2", parents=("step_1",)))
    data["workflow"]["execution"] = {"tasks": done}
    assert {one.stage for one in read(tmp_path, data).tasks.values()} == stages


def test_escapes_are_undone_only_in_our_own(tmp_path: Path) -> None:
    one = task("a:20b", outputFiles=["/d/x:20y#2", "/d/x:20y#1", "pipe:3A:5B7:5D"])
    assert read(tmp_path, instance(one)).tasks["a:20b"].outputs == ("/d/x:20y#2", "/d/x:20y#1", "pipe:3A:5B7:5D")
    ours = read(tmp_path, instance(one, task("step_1"), tailrace={"escape": ":"})).tasks
    assert ours["a b"].outputs == ("/d/x y",), "a pipe is no file"
    assert ours["step_1"].stage == "step_1"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ("{", "is not JSON"),
        ("[1]", "not a WfFormat instance of version 1.5 or 1.6"),
        ({"name": "w", "workflow": {"tasks": []}}, "has no 'specification'"),
        (instance(task("a"), task("a")), "it has two tasks 'a'"),
        (
            instance(task("a", parents=("z",))),
            "'z' is declared as a parent of 'a', but one of them is not among its tasks",
        ),
        (
            instance(task("a", children=("z",))),
            "'a' is declared as a parent of 'z', but one of them is not among its tasks",
        ),
        (instance(task("a", parents=("b",)), task("b", parents=("a",))), "form a cycle among 'a', 'b'"),
        (instance(task("a", parents=("a",))), "form a cycle among 'a'"),
        (instance({"id": "a", "parents": 3}), "not a WfFormat instance"),
        (
            '{"name": "w", "workflow": {"specification": {"tasks": [], "files": [{"id": "f", "sizeInBytes": 1e999}]}}}',
            "not a WfFormat instance",
        ),
    ],
)
def test_impossible_instances_are_refused(tmp_path: Path, data: Any, reason: str) -> None:
    with pytest.raises(UsageError, match=r"i\.json") as error:
        read(tmp_path, data)
    assert reason in str(error.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"can't read .*none.json: No such file"):
        wfformat.read(tmp_path / "none.json")


def test_declared_tasks_files_and_dependencies(tmp_path: Path) -> None:
    first, second = task("a", outputFiles=["x", "/abs"]), task("b", parents=("a",), inputFiles=["x"])
    path = tmp_path / "i.json"
    path.write_text(json.dumps(instance(first, second, task("c", parents=("a",)), task("d", inputFiles=["/abs"]))))
    assert importing.importer_of(path, None, [wfformat.IMPORTER]) is wfformat.IMPORTER
    workflow = importing.read(wfformat.IMPORTER, path)
    names = {one: one for one in "abcd"}
    for _ in range(2):
        importing.write(tmp_path, "wfformat", workflow, "wf", Path("/base"), names)
    (log,) = (tmp_path / "declared").iterdir()
    begin, *tasks = [json.loads(line) for line in log.read_text().splitlines()]
    assert (begin["workflow"], begin["manager"]) == ("wf", "wfformat")
    # The parents of a task are its dependencies, all of them.
    assert {t["task"]: t["deps"] for t in tasks} == {
        "a": [],
        "b": [{"task": "a", "via": "file", "path": "/base/x"}],
        "c": [{"task": "a", "via": "future"}],
        "d": [],
    }
    assert [file["path"] for file in tasks[0]["outputs"]] == ["/base/x", "/abs"]
    assert importing.forget(tmp_path) == 1
    assert list((tmp_path / "declared").iterdir()) == []
