"""GNU make's adapter: a recipe that makes several targets is one task, which declares them all."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tailrace
from support.commands import run_cli
from support.makes import tasks_of, traced
from support.run_files import read_declared


def knows_groups() -> bool:
    if not shutil.which("make"):
        return False
    said = subprocess.run(["make", "--version"], capture_output=True, text=True, check=True).stdout
    found = re.match(r"GNU Make (\d+)\.(\d+)", said)
    return found is not None and (int(found[1]), int(found[2])) >= (4, 3)


pytestmark = pytest.mark.skipif(not knows_groups(), reason="no GNU make from 4.3: apt-get install make")

MAKEFILE = r"""
include included.mk
EXTS = fa fai
GENOME := $(addprefix genome.,$(EXTS))
PAIR := %.left %.right
odd := out/it's\ one
ifeq ($(DEBUG),)
both = with.1 with.2
else
both = with.1 with.3
endif

all: reads.out out/deep/y.count z.count pair.out blank.out cond.out old.out \
  alternative.out chosen.out writer.idx reader included.out

$(GENOME) &: source
	seq 1000 > genome.fa; seq 2000 > genome.fai
reads.out: genome.fai
	cat $< > $@

out/%.bam out/%.bai: source
	mkdir -p $(@D); seq 1000 > out/$*.bam; seq 2000 > out/$*.bai
out/deep/y.out: out/deep/y.bai
	cat $< > $@
out/deep/y.count: out/deep/y.bam out/deep/y.out
	cat out/deep/y.bam > $@

%.one %.two : source
	mkdir -p out; seq 1000 > $*.one; seq 2000 > $*.two
z.out: out/z.one
	cat $< > $@
z.count: z.out out/z.two
	cat out/z.two > $@

$(PAIR): source
	seq 1000 > $*.left; seq 2000 > $*.right
pair.out: p.left p.right
	cat p.right > $@

out/a\ b \
  $(odd) ./hash\#1&: source
	mkdir -p out; seq 1000 > 'out/a b'; seq 2000 > "out/it's one"; seq 3000 > 'hash#1'
blank.first: out/a\ b
	cat '$<' > $@
blank.out: out/it's\ one hash\#1 | blank.first
	cat "out/it's one" 'hash#1' > $@

ifeq ($(DEBUG),)
$(both) &: source
	seq 1000 > with.1; seq 2000 > with.2
else
with.1 with.2 reader &: source
endif
cond.out: with.1 with.2
	cat with.2 > $@

old.1 old.2: source
	seq 1000 > $@
static.1 static.2: static.%: source
	seq 1000 > $@
old.out: old.1 old.2 static.1 static.2
	cat $^ > $@

%.from-u %.from-w: source
	seq 1000 > $*.from-u; seq 1000 > $*.from-w
%.uu %.vv: %.from-v
	false
%.uu %.ww: %.from-w
	seq 1000 > $*.uu; seq 1000 > $*.ww
alternative.out: alt.uu alt.ww
	cat alt.ww > $@

ifeq ($(shell echo no),yes)
chosen.a chosen.b &: source
	false
else
chosen.a: source
	seq 1000 > $@
chosen.b: source
	seq 1000 > $@
endif
chosen.out: chosen.a chosen.b
	cat $^ > $@

writer writer.idx &: source
	seq 1000 > writer; seq 1000 > writer.idx; seq 5000 > hidden; touch ready
reader: source
	until [ -e ready ]; do sleep 0.01; done; cat hidden > $@
.SECONDARY:
"""
INCLUDED = "i.1 i.2 &: source ; seq 1000 > i.1; seq 1000 > i.2\nincluded.out: i.1 i.2\n\tcat i.2 > $@\n"
OUTPUTS = [
    {"genome.fa", "genome.fai"},
    {"out/deep/y.bam", "out/deep/y.bai"},
    {"out/z.one", "out/z.two"},
    {"p.left", "p.right"},
    {"out/a b", "out/it's one", "hash#1"},
    {"with.1", "with.2"},
    {"alt.from-u", "alt.from-w"},
    {"alt.uu", "alt.ww"},
    {"writer", "writer.idx"},
    {"i.1", "i.2"},
]
CONSUMERS = {
    "reads.out": OUTPUTS[0],
    "out/deep/y.out": OUTPUTS[1],
    "out/deep/y.count": OUTPUTS[1],
    "z.out": OUTPUTS[2],
    "z.count": OUTPUTS[2],
    "pair.out": OUTPUTS[3],
    "blank.first": OUTPUTS[4],
    "blank.out": OUTPUTS[4],
    "cond.out": OUTPUTS[5],
    "alternative.out": OUTPUTS[7],
    "included.out": OUTPUTS[9],
}


def outputs(folder: Path, task: dict[str, Any]) -> set[str]:
    return {str(Path(path).relative_to(folder.resolve())) for path in task["outputs"]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("make") / "a folder"
    folder.mkdir()
    (folder / "Makefile").write_text(MAKEFILE)
    (folder / "included.mk").write_text(INCLUDED)
    (folder / "source").write_text("x\n")
    traced(folder, folder / "run", "-j4", "all")
    yield folder


def test_a_recipe_declares_all_targets_of_its_rule(folder: Path) -> None:
    tasks = tasks_of(folder / "run")
    made = [outputs(folder, task) for task in tasks.values()]
    several = sorted(map(sorted, (names for names in made if len(names) > 1)))
    assert several == sorted(map(sorted, OUTPUTS))
    assert all(name in outputs(folder, task) for name, task in tasks.items())
    lines = [line["task"] for line in read_declared(folder / "run") if line["type"] == "task"]
    assert sorted(lines) == sorted(tasks)


def test_the_tasks_stay_those_that_make_ran(folder: Path) -> None:
    tasks = tasks_of(folder / "run")
    alone = {"old.1", "old.2", "static.1", "static.2", "chosen.a", "chosen.b", "old.out", "chosen.out"}
    assert tasks.keys() - {name for group in OUTPUTS for name in group} == {*CONSUMERS, *alone, "reader"}
    assert {task["stage"] for name, task in tasks.items() if name.startswith("alt.")} == {"%.from-w", "%.uu"}


def test_who_needs_one_of_the_targets_depends_on_the_recipe(folder: Path) -> None:
    tasks = tasks_of(folder / "run")
    for name, group in CONSUMERS.items():
        makers = [dep for dep in tasks[name]["deps"] if dep in group]
        assert len(makers) == 1 and outputs(folder, tasks[makers[0]]) == group, name
    assert tasks["chosen.out"]["deps"] == ["chosen.a", "chosen.b"]
    assert set(tasks["old.out"]["deps"]) == {"old.1", "old.2", "static.1", "static.2"}


def test_the_only_undeclared_dependency_is_the_one_that_no_rule_has(folder: Path) -> None:
    undeclared = tailrace.open(folder / "run").insights().declared.undeclared
    found = {(row["consumer"], row["order"]) for row in undeclared.to_dict("records")}
    assert found == {("reader", "none")}
    report = " ".join(run_cli("report", folder / "run").stdout.split())
    assert report.count("no dependency is declared and nothing orders them") == 1
    assert "race reader read" in report


HOSTILE = r"""
include data.mk binary.mk
SELF = $(SELF) a
FIRST = $(SECOND)
SECOND = $(FIRST)
FAILS = $(error this ends make)
NAMES := first second
TEMPLATE = $(1).x $(1).y &: source ; seq 100 > $(1).x; seq 100 > $(1).y
define text
in text &: source
$(error in a text)
endef
ifdef NEVER
$(SELF) b &: source
$(FIRST) b &: source
$(FAILS) b &: source
$(FROM_ENVIRONMENT) b &: source
$(shell touch expanded) b &: source
$(eval $(error evaluated)) b &: source
$(word 0,a b) c &: source
$(if) $(nothing x) c &: source
$(FAILS).% %.$(SELF) : source
%.a $(unended &: source
ifeq ($(FAILS),)
a b &: source
endif
ifeq
endif
endif
$(foreach name,$(NAMES),$(eval $(call TEMPLATE,$(name))))
all: first.x made.out
	@echo '$(words $(MAKEFILE_LIST))' > all
made.1 made.2 &: source
	seq 100 > made.1; seq 100 > made.2
made.out: made.1 made.2
	cat made.2 > $@; # a comment & : with %.a %.b: c
when := $(shell echo x >> counted)
$(when)%.kept $(when)%.lost: source
	seq 100 > $*.kept
"""


def test_what_a_makefile_has_beside_never_breaks_make(tmp_path: Path) -> None:
    (tmp_path / "Makefile").write_text(HOSTILE)
    (tmp_path / "source").write_text("x\n")
    (tmp_path / "data.mk").write_text("# " + "%: &: " * 300_000 + "\nLARGE := $(words " + "% " * 200_000 + ")\n")
    (tmp_path / "binary.mk").write_bytes(b"# \xff\xfe\x80 %.a %.b: \\\n\xe9 &:\nBINARY := \xff\n")
    traced(tmp_path, tmp_path / "run", "-j2", "all", FROM_ENVIRONMENT="$(error of the environment)")
    assert not (tmp_path / "expanded").exists()
    assert (tmp_path / "counted").read_text() == "x\nx\n"
    assert (tmp_path / "all").read_text() == "4\n"
    tasks = tasks_of(tmp_path / "run")
    assert {frozenset(outputs(tmp_path, task)) for task in tasks.values() if len(task["outputs"]) > 1} == {
        frozenset({"made.1", "made.2"}),
        frozenset({"first.x", "first.y"}),
    }
    assert tasks["made.out"]["deps"] == ["made.1"]


def test_targets_are_those_of_the_time_of_their_rule(tmp_path: Path) -> None:
    text = "D := a\n$(D).1 $(D).2 &: ; touch a.1 a.2\nall: a.1 b.2; touch all\nD := b\nb.2: ; touch $@\nb.1:;\n"
    (tmp_path / "Makefile").write_text(text)
    traced(tmp_path, tmp_path / "run", "all")
    assert {name: outputs(tmp_path, task) for name, task in tasks_of(tmp_path / "run").items()} == {
        "a.1": {"a.1", "a.2"},
        "b.2": {"b.2"},
        "all": {"all"},
    }
