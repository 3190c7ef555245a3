"""GNU make's adapter: targets are tasks, whatever their names are; prerequisites are declared."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tailrace
from support.commands import run_cli
from support.harm import active_environment
from support.makes import tasks_of
from support.run_files import Trace, read_declared

pytestmark = pytest.mark.skipif(not shutil.which("make"), reason="no GNU make: apt-get install make")

MAKEFILE = r"""
SHELL := /bin/bash
odd := out/it's,100=\#"$$1"
all: out/sum out/a\ b.end $(odd) out/é
out:
	mkdir -p out
out/%.txt: | out
	@[[ 1 ]] && seq 1000 > $@
	@echo "$${BASH_VERSION:+bash} $$0" > $@.shell; $(SHELL) -c 'echo $${BASH_VERSION:+bash}' >> $@.shell
out/sum: out/x.txt out/y.txt source
	@cat $^ > $@
out/a\ b.end: out/sum
	@cp $< '$@'
$(odd): out/a\ b.end
	@cp "$<" "$$(printf %b "out/it\0047s,100=\0043\0042\0044""1\0042")"
out/é: out/sum
	@cp $< $@
bad: out/sum
	@cat $< > $@; exit 5
never: bad
	@cp $< $@
many: $(addprefix many-prerequisites-with-long-names-,$(shell seq 4000))
	@echo $(words $^) > $@
many-%: ;
"""
ODD = 'out/it\'s,100=#"$1"'
STAGES = {
    "out": "out",
    "out/x.txt": "out/%.txt",
    "out/y.txt": "out/%.txt",
    "out/sum": "out/sum",
    "out/a b.end": "out/a b.end",
    ODD: ODD,
    "out/é": "out/é",
    "bad": "bad",
    "many": "many",
}
EDGES = {
    ("out", "out/x.txt"),
    ("out", "out/y.txt"),
    ("out/x.txt", "out/sum"),
    ("out/y.txt", "out/sum"),
    ("out/sum", "out/a b.end"),
    ("out/a b.end", ODD),
    ("out/sum", "out/é"),
    ("out/sum", "bad"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("make") / "it's a folder"
    folder.mkdir()
    (folder / "Makefile").write_text(MAKEFILE)
    (folder / "source").write_text("x\n")
    words = ["make", "-k", "-j2", "-f", "Makefile", "-f", run_cli("adapter", "make").stdout.strip()]
    targets = ["all", "never", "many"]
    done = run_cli("run", "-o", folder / "run", "--", *words, *targets, cwd=folder, env=active_environment())
    assert done.returncode == 2, done.stdout + done.stderr
    assert [line for line in done.stderr.splitlines() if "Error" in line] == ["make: *** [Makefile:19: bad] Error 5"]
    yield folder


def test_each_target_is_a_task_with_what_its_recipe_wrote(folder: Path) -> None:
    trace = Trace(folder / "run")
    found = {}
    for target in STAGES.keys() - {"out"}:
        events = [e for e in trace.events if str(folder.resolve() / target) in (e["path2"] or e["path"], e["path"])]
        written = [e["args"] for e in events if "w" in (e["args"].get("dir") or "") and e["args"].get("size")]
        mine = {(args.get("workflow"), args.get("stage"), args.get("task")) for args in written}
        # What copies it reads it.
        found[target] = {tags for tags in mine if tags[2] == target} or mine
    assert found == {target: {(folder.name, STAGES[target], target)} for target in found}


def test_prerequisites_are_declared(folder: Path) -> None:
    tasks = tasks_of(folder / "run")
    assert {name: task["stage"] for name, task in tasks.items()} == STAGES
    assert {(dep, name) for name, task in tasks.items() for dep in task["deps"]} == EDGES
    assert sorted(Path(path).name for path in tasks["out/sum"]["inputs"]) == ["source", "x.txt", "y.txt"]
    run = tailrace.open(folder / "run")
    statuses = {
        (row["producer"], row["consumer"]): row["status"] for row in run.insights().declared.table.to_dict("records")
    }
    folders = {edge: "not observed" for edge in EDGES if edge[0] == "out"}
    assert statuses == {
        **dict.fromkeys(EDGES, "observed"),
        **folders,
        **{edge: status for edge, status in statuses.items() if edge[0] == "out" and status == "order only"},
    }
    assert "without an end" not in run_cli("report", folder / "run").stdout


def test_recipes_run_in_the_shell_of_the_makefile(folder: Path) -> None:
    for name in "xy":
        assert (folder / f"out/{name}.txt.shell").read_text() == "bash /bin/bash\nbash\n"
    assert (folder / "many").read_text() == "4000\n"


@pytest.mark.parametrize("options", [["-n"], ["untraced"]])
def test_where_nothing_is_traced_nothing_is_changed(options: list[str], tmp_path: Path) -> None:
    (tmp_path / "Makefile").write_text(".ONESHELL:\nall:\n\t@cd /\n\t@pwd; echo $(SHELL)\n")
    words = ["make", "-f", "Makefile", "-f", run_cli("adapter", "make").stdout.strip()]
    if options == ["untraced"]:
        done = run_cli("tag", "--", *words, cwd=tmp_path, env=active_environment())
        assert done.stdout == "/\n/bin/sh\n"
        return
    done = run_cli("run", "-o", tmp_path / "run", "--", *words, *options, cwd=tmp_path, env=active_environment())
    assert done.stdout.splitlines()[-1].endswith("/bin/sh")
    assert read_declared(tmp_path / "run") == []


def test_oneshell(tmp_path: Path) -> None:
    (tmp_path / "Makefile").write_text(".ONESHELL:\nall:\n\t@cd /\n\t@pwd\n")
    words = ["make", "-f", "Makefile", "-f", run_cli("adapter", "make").stdout.strip()]
    done = run_cli("run", "-o", tmp_path / "run", "--", *words, cwd=tmp_path, env=active_environment())
    assert done.stdout == "/\n", done.stderr
    lines: list[Any] = read_declared(tmp_path / "run")
    assert [line["task"] for line in lines if line["type"] == "task"] == ["all"]


def test_make_remakes_no_file_of_the_adapter(tmp_path: Path) -> None:
    (tmp_path / "Makefile").write_text("all: own.mk\n%.mk: source\n\techo $@ >> remade\n")
    (tmp_path / "source").touch()
    words = ["make", "-f", "Makefile", "-f", run_cli("adapter", "make").stdout.strip()]
    done = run_cli("run", "-o", tmp_path / "run", "--", *words, cwd=tmp_path, env=active_environment())
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "remade").read_text() == "own.mk\n"
