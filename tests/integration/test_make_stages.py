"""GNU make's adapter: a target without a recipe passes on what it waited for, as make's own database has it."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

import tailrace
from support.commands import run_cli
from support.makes import tasks_of, traced

pytestmark = pytest.mark.skipif(not shutil.which("make"), reason="no GNU make: apt-get install make")

MAKEFILES = {
    "plain": "c: data\n\tcat a > $@\ndata: a b\na b:\n\tseq 1000 > $@\n",
    "phony, in several rules, and order-only": """
.PHONY: stage1 stage2 all
all: c d e stage2
c: stage1
	cat out/a out/b > $@
stage1: out/a
stage1: out/b | out
d: stage2
	cat c out/a > $@
stage2: stage1 c
e: | stage2
	cat c out/b > $@
out/a out/b: | out
	seq 1000 > $@
out:
	mkdir $@
""",
    "variables, functions and conditionals": """
include names.mk
OUTS := $(addsuffix .txt,$(addprefix out/,$(NAMES)))
DATA = $(OUTS) $(EXTRA)
EXTRA := extra
.PHONY: data $(NAMES:%=do-%)
all: c $(NAMES:%=do-%)
c: data
	cat $(OUTS) > $@
data: ./$(firstword $(OUTS)) $(DATA)
ifdef NEVER
data: never
else ifeq ($(words $(NAMES)),3)
data: three
endif
never three extra:
	seq 10 > $@
d: three never
	cat three never > $@
$(OUTS): | out
	seq 1000 > $@
out:
	mkdir $@
all: d
$(foreach one,$(NAMES),do-$(one)): data
""",
    "levels, cycles and FORCE": """
all: top again
top: s3 FORCE
	cat a > $@
again: top s2 | FORCE
	cat top a > $@
s3: s2 s1
s2: s1 s3
s1: s0 FORCE
s0: a
FORCE:
a: FORCE
	seq 1000 > $@
""",
    "a recipe from another rule": """
all: c d e
c: out/x out/y nothing
	cat out/x out/y > $@
d: out/y
	cat out/y dep > $@
out/x: dep
out/%: in/%
	cat $^ > $@
out/y: dep
nothing: dep ;
dep:
	seq 1000 > $@
in/x in/y:
	mkdir -p in out; seq 1000 > $@
%.made:
	seq 10 > $@
e: group
	cat u.made v.made > $@
group: u.made v.made
""",
    "double colons and static patterns": """
STAGES := one two
.PHONY: $(STAGES) done
all: c d e
$(STAGES): %: out/%.1 ./out/%.2
c: one
	cat out/one.1 > $@
d: two | done
	cat out/two.2 out/one.1 > $@
e: done
	cat out/one.2 out/two.1 > $@
done:: one
done:: two
OBJS := $(foreach s,$(STAGES),out/$(s).1 out/$(s).2)
$(OBJS): out/%: | out
	echo $* > $@
out:
	mkdir $@
""",
    "groups and blanks": r"""
all: c d
c: data
	cat 'x y' b > $@
d: data pair x\ y
	cat b c1 c2 'x y' > $@
data: x\ y b
b:
	seq 10 > $@
x\ y: b
	seq 1000 > 'x y'
pair: c2
%1 %2: b
	seq 10 > $*1; seq 10 > $*2
""",
    "vpath and an order of its own": """
vpath %.txt folder
all: c
c: data
	cat b folder/a.txt > $@
data: a.txt b
b: source
	cat $< > $@
source: ; seq 1000 > $@
""",
    "many": """
OUTS := $(foreach i,1 2 3 4 5 6 7 8 9,$(foreach j,0 1 2 3 4 5 6 7 8 9,$(addprefix out/a-rather-long-name-$i$j,0 1 2 3)))
.PHONY: stage
all: c d
c d: stage $(OUTS)
	cat $(OUTS) > $@
stage: $(OUTS)
$(OUTS): | out
	echo $@ > $@
out:
	mkdir $@
""",
}
FILES = {"names.mk": "NAMES := x y\nNAMES += z\n", "late.mk": "data: $(L)\n", "folder/a.txt": "text\n"}
COMPUTED = {
    "by the shell": "data: $(shell echo a)",
    "by eval": "$(eval data: a)",
    "a name that is computed": "NAME := L\nL := a\ndata: $($(NAME))",
    "other values later": "L := a\ndata: $(L)\nL := b",
    "added to by eval later": "L := a\ndata: $(L)\n$(eval L += b)",
    "a condition that changes": "ifndef L\ndata: a\nendif\nL := 1",
    "a condition that was not so": "ifdef L\ndata: b\nendif\nL := 1\ndata: a",
    "set in an including makefile": "L := a\ninclude late.mk\nL := b",
}


def fill(folder: Path, makefile: str) -> None:
    (folder / "folder").mkdir(parents=True)
    for path, text in {**FILES, "Makefile": makefile}.items():
        (folder / path).write_text(text)


@pytest.fixture(params=MAKEFILES)
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    for name in ("traced", "bare"):
        fill(tmp_path / name, MAKEFILES[request.param])
    return tmp_path


def said(text: str) -> list[str]:
    """Its lines, without the folder, in any order: of two recipes at a time either may be first."""
    return sorted(text.splitlines())


def written(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def database(folder: Path) -> dict[str, set[str]]:
    """Target -> its prerequisites, as make prints them."""
    done = subprocess.run(["make", "-pn"], cwd=folder, capture_output=True, text=True, check=True)
    found: dict[str, set[str]] = {}
    for line in done.stdout.split("\n# Files\n")[1].splitlines():
        name, colon, rest = line.replace("x y", "x~y").partition(":")
        if colon and name and name[0] not in "#\t.":
            found.setdefault(name.replace("~", " "), set()).update(
                word.replace("~", " ") for word in rest.lstrip(":").replace("|", " ").split()
            )
    return found


def waited(of: dict[str, set[str]], target: str, makers: dict[str, str]) -> set[str]:
    """The tasks that are over when that target's recipe begins, over targets that have none."""
    found, pending, seen = set(), set(of.get(target, ())), {target}
    while pending:
        one = pending.pop()
        if one in makers:
            found.add(makers[one])
        elif one not in seen:
            seen.add(one)
            pending |= of.get(one, set())
    return found - {target}


def test_dependencies_are_those_of_makes_own_database(folder: Path) -> None:
    traced(folder / "traced", folder / "run", "-j4")
    tasks = tasks_of(folder / "run")
    root = (folder / "traced").resolve()
    makers = {str(Path(path).relative_to(root)): name for name, task in tasks.items() for path in task["outputs"]}
    names = database(folder / "bare")
    assert {name: set(task["deps"]) for name, task in tasks.items()} == {
        name: waited(names, name, makers) for name in tasks
    }
    assert all(len(task["deps"]) == len(set(task["deps"])) for task in tasks.values())


def test_nothing_is_called_undeclared_and_no_phony_target_a_file(folder: Path) -> None:
    traced(folder / "traced", folder / "run", "-j4")
    found = tailrace.open(folder / "run").insights().declared
    assert found.undeclared.query("order != 'declared'").empty
    inputs = [path for task in tasks_of(folder / "run").values() for path in task["inputs"]]
    assert not [path for path in inputs if not Path(path).exists()]
    assert not re.search(r"^ +race ", run_cli("report", folder / "run").stdout, re.MULTILINE)


def test_make_builds_and_says_the_same(folder: Path) -> None:
    bare = subprocess.run(["make", "-j4"], cwd=folder / "bare", capture_output=True, text=True, check=True)
    assert said(traced(folder / "traced", folder / "run", "-j4")) == said(bare.stdout + bare.stderr)
    assert written(folder / "traced") == written(folder / "bare")
    again = subprocess.run(["make", "-j4"], cwd=folder / "bare", capture_output=True, text=True, check=True)
    shutil.rmtree(folder / "run")
    assert said(traced(folder / "traced", folder / "run", "-j4")) == said(again.stdout + again.stderr)


@pytest.mark.parametrize("text", COMPUTED.values(), ids=COMPUTED)
def test_prerequisites_are_makes_own_however_they_are_computed(text: str, tmp_path: Path) -> None:
    rest = "all: a b c\na b:\n\tseq 10 > $@\nc: data\n\tcat a > $@\n"
    fill(tmp_path / "traced", f".PHONY: data\nall:\n{text}\n{rest}")
    traced(tmp_path / "traced", tmp_path / "run")
    assert {name: task["deps"] for name, task in tasks_of(tmp_path / "run").items()} == {"a": [], "b": [], "c": ["a"]}


def test_what_make_takes_for_old_passes_on_nothing(tmp_path: Path) -> None:
    fill(tmp_path / "traced", "all: a c\nc: data\n\techo > $@\ndata: a\na:\n\techo > $@\n")
    (tmp_path / "traced" / "data").touch()
    traced(tmp_path / "traced", tmp_path / "run", "-ko", "data")
    assert {name: task["deps"] for name, task in tasks_of(tmp_path / "run").items()} == {"a": [], "c": []}


def test_a_target_of_many_levels_breaks_nothing(tmp_path: Path) -> None:
    chain = "".join(f"s{i}: s{i - 1}\n" for i in range(1, 3000))
    fill(
        tmp_path / "traced",
        f"all: near far\nfar: s2999\n\techo > $@\nnear: s30\n\tcat s0 > $@\n{chain}s0:\n\techo > $@\n",
    )
    traced(tmp_path / "traced", tmp_path / "run")
    tasks = tasks_of(tmp_path / "run")
    assert tasks["near"]["deps"] == ["s0"] and tasks["far"]["deps"] == ["s0"]


def test_what_did_not_run_stands_for_what_it_waited_for(tmp_path: Path) -> None:
    makefile = "all: c\nc: b\n\tcat b > $@\nb: | a\n\techo > $@\na: source\n\tcat source > $@\nsource: ; echo > $@\n"
    fill(tmp_path / "traced", makefile)
    for name in ("source", "b"):
        (tmp_path / "traced" / name).touch()
    traced(tmp_path / "traced", tmp_path / "run")
    tasks = tasks_of(tmp_path / "run")
    assert {name: task["deps"] for name, task in tasks.items()} == {"a": [], "c": ["a"]}
    assert [Path(path).name for path in tasks["c"]["inputs"]] == ["b"]


def test_no_recipe_runs_twice(tmp_path: Path) -> None:
    sub = "sub.mk: ; @echo sub >> ran\n"
    makefile = (
        "all: a b\na:\n\t+echo a >> ran\n\techo $(shell echo expanded >> ran)\n"
        "b: ; $(MAKE) -f sub.mk sub.mk\n.PHONY: a b\n-include made.d\nmade.d: ; echo made >> ran; touch $@\n"
    )
    fill(tmp_path / "traced", makefile)
    (tmp_path / "traced" / "sub.mk").write_text(".PHONY: sub.mk\n" + sub)
    traced(tmp_path / "traced", tmp_path / "run")
    assert sorted((tmp_path / "traced" / "ran").read_text().split()) == ["a", "expanded", "made", "sub"]


def test_a_makefile_that_exports_everything_gives_recipes_what_they_had(tmp_path: Path) -> None:
    fill(tmp_path / "traced", "export\nA := 1\nall: data\n\t@env\ndata: a b\na b:\n\t@touch $@\n")
    said = traced(tmp_path / "traced", tmp_path / "run")
    found = [line.partition("=")[0] for line in said.splitlines()]
    assert "A" in found and not [name for name in found if name.startswith("tailrace")]
