"""Which rules of a makefile make several targets by one recipe, or have none, by the text."""

from pathlib import Path

import pytest

from tailrace.make.begin import listed, takes_for_old
from tailrace.make.rules import rules


def found(folder: Path, *texts: str | bytes, grouped: bool = True) -> list[str]:
    """The targets of the rules of these makefiles."""
    paths = [folder / f"{number}.mk" for number in range(len(texts))]
    for path, text in zip(paths, texts, strict=True):
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return [rule.targets for rule in rules([folder / "missing.mk", folder, *paths], grouped=grouped)[0]]


@pytest.mark.parametrize(
    ("text", "targets"),
    [
        ("a b &: c\n\ttouch a b\n", ["a b"]),
        ("a b&:: c\n", ["a b"]),
        ("a \\\n  b &: c ; touch a b", ["a b"]),
        ("%.a %.b: %.c\r\n", ["%.a %.b"]),
        ("%.a %.b:: %.c", ["%.a %.b"]),
        ("ALL = %.a %.b\n$(ALL): %.c", ["$(ALL)"]),
        ("ALL := a b\n${ALL} &: c", ["${ALL}"]),
        ("A := x\nA += $(shell ls)\n$(A) &: c", ["$(A)"]),
        ("$(A:%=%.bai) &: c", ["$(A:%=%.bai)"]),
        ("a\\ b c &: d", ["a\\ b c"]),
        ("a\\#b c &: d # e", ["a\\#b c"]),
        (".RECIPEPREFIX = >\n>x y &: z\na b &: c", ["a b"]),
        ("define X\nx y &: z\ndefine Y\nx y &: z\nendef\nx y &: z\nendef\na b &: c", ["a b"]),
        ("ifdef X\na b &: c\nelse\nendif", ["a b"]),
        ("ifeq ($(shell x),)\na b &: c\nendif", ["a b"]),
    ],
)
def test_rules_of_one_recipe_are_found(text: str, targets: list[str], tmp_path: Path) -> None:
    assert found(tmp_path, text) == targets


@pytest.mark.parametrize(
    "text",
    [
        "a b: c",
        "a b & : c",
        "a &: c",
        "a\\ b &: c",
        "%.a: %.b",
        "a.o b.o: %.o: %.c",
        "%.a %.b: X := 1",
        "%.a %.b: private X = 1",
        "\ta b &: c",
        "# a b &: c",
        "X := a b &: c",
        "vpath %.a %.b:c",
        "$(A) $(shell x) &: c",
        "$(error x) a &: c",
        "A = $(error x)\n$(A) b &: c",
        "A = $(B)\nB = $(A)\n$(A) b &: c",
        "A = $(A)\n$(A) b &: c",
        "$($(A)) b &: c",
        "$(A b &: c",
        "$(word 0,a) b &: c",
        "$(if a) b &: c",
        "$(no function) b &: c",
        "$(dir $(lastword $(MAKEFILE_LIST)))a b &: c",
        "A := x\n$(A) b &: c\nA := y",
        "ifeq ($(shell x),)\na b &: c\nelse\na: c\nb: c\nendif",
    ],
)
def test_other_rules_and_those_that_may_come_out_otherwise_are_not(text: str, tmp_path: Path) -> None:
    assert found(tmp_path, text) == []


def test_a_variable_that_each_makefile_assigns_anew_is_not_followed(tmp_path: Path) -> None:
    assert found(tmp_path, "D := x\n$(D)/a $(D)/b &: c", "D := y\nx y &: c") == ["x y"]


def test_a_make_before_4_3_groups_patterns_alone(tmp_path: Path) -> None:
    assert found(tmp_path, "a b &: c\n%.a %.b: c", grouped=False) == ["%.a %.b"]


def test_conditions_come_with_their_rule_unless_they_change(tmp_path: Path) -> None:
    path = tmp_path / "Makefile"
    path.write_text(
        "ifdef X\nelse ifeq ($(Y),1)\nifneq 'a' 'b'\na b &: c\nendif\nelse\nendif\nifndef G\nG := 1\nc d &: e\nendif"
    )
    assert [rule.conditions for rule in rules([path], grouped=True)[0]] == [
        (("ifdef X", "else ifeq ($(Y),1)"), ("ifneq 'a' 'b'",)),
        (),
    ]


def test_what_is_no_makefile_has_no_rules(tmp_path: Path) -> None:
    texts = (
        b"\0a b &: c",
        b"\xff\xfe &: \\",
        b"a b &: c\n" + b"#" * 2_000_000,
        b"$(" * 5000 + b"a b &: c",
        b"\xe9 b &: c",
    )
    assert found(tmp_path, *texts) == ["\udce9 b"]


def test_nested_references_are_read_in_bounded_depth(tmp_path: Path) -> None:
    deep = "$(strip " * 3000 + "a" + ")" * 3000 + " b &: c\n"
    chain = "".join(f"V{i} = $(V{i + 1})$(V{i + 1})\n" for i in range(2000)) + "$(V0) b &: c\n"
    assert found(tmp_path, deep + chain + "a b &: c") == ["a b"]


def test_names_with_blanks_are_put_together_where_there_is_such_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a b").touch()
    Path("c").touch()
    assert listed("a b c d") == [Path("a b"), Path("c"), Path("d")]


def passed(folder: Path, **texts: str) -> list[tuple[str, str]]:
    """Targets and prerequisites of the rules without a recipe of makefiles, in the order in which make began them."""
    for name, text in texts.items():
        (folder / f"{name}.mk").write_text(text)
    found = rules([folder / f"{name}.mk" for name in texts], grouped=True)[1]
    return [(rule.targets, rule.prerequisites) for rule in found]


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("a: b c", ("a", "b c")),
        ("a b:: c | d", ("a b", "c   d")),
        ("a:|b", ("a", "b")),
        ("a: b ;", ("a", "b")),
        ("a: b\n\t\n# nothing\nX := 1", ("a", "b")),
        ("a: b # c", ("a", "b")),
        ("a: \\\n  b \\\n\tc\n", ("a", "b c")),
        ("$(S): %: %.a | d", ("$(S)", "%.a   d")),
        ("X := b\na: $(X)", ("a", "$(X)")),
        ("X := b\nX += c\na: $(X:%=%.o)", ("a", "$(X:%=%.o)")),
        ("$(eval X := b)\na: $(X)", ("a", "$(X)")),
        (".PHONY: a\na: b", ("a", "b")),
        ("ifdef X\na: b\nendif", ("a", "b")),
    ],
)
def test_rules_without_a_recipe_are_found(text: str, rule: tuple[str, str], tmp_path: Path) -> None:
    assert passed(tmp_path, one=text) == [rule]


@pytest.mark.parametrize(
    "text",
    [
        "a: b\n\techo",
        "a: b ; echo",
        "a: b\nifdef X\n\techo\nendif",
        "a: b\n\n# why\n\techo",
        "a:",
        "a: X := b",
        "%: b",
        ".PHONY: a b\n.SECONDARY: c",
        "a: $(shell ls)",
        "X = $(shell ls)\na: $(X)",
        "X := b\na: $(X)\nX := c",
        "a: $(X)\n$(eval X += c)",
        "define T\nX := c\nendef\na: $(X)\n$(eval $(T))",
        "ifndef X\na: b\nendif\nX := 1",
        "ifeq ($(shell x),)\na: b\nendif",
        "define T\na: b\nendef",
    ],
)
def test_rules_that_have_one_or_may_come_out_otherwise_are_not(text: str, tmp_path: Path) -> None:
    assert passed(tmp_path, one=text) == []


def test_a_variable_of_another_makefile_counts_if_that_was_read_before(tmp_path: Path) -> None:
    rule = [("a", "$(X)")]
    assert passed(tmp_path, one="include two.mk\na: $(X)", two="X := b\nX += c") == rule
    assert passed(tmp_path, one="X := b\ninclude two.mk", two="a: $(X)") == rule
    assert passed(tmp_path, one="a: $(X)\ninclude two.mk", two="X := b") == []
    assert passed(tmp_path, one="X := b\ninclude two.mk\nX += c", two="a: $(X)") == []
    assert passed(tmp_path, one="X := b\ninclude two.mk\na: $(X)", two="X := c") == []
    assert passed(tmp_path, one="include two.mk\na: $(X)\ninclude two.mk", two="X += b") == []


@pytest.mark.parametrize("words", ["-o a", "-ko a", "-koa", "--old-file=a", "--assume-old a", "-f x -j4 --old a"])
def test_the_options_by_which_make_takes_a_file_for_old_are_known(words: str) -> None:
    assert takes_for_old(["make", *words.split()])


@pytest.mark.parametrize(
    "words", ["", "-f foo.mk -j 4 all", "-ffoo.mk", "-Otarget", "--output-sync a=-o", "-Cout -kj4"]
)
def test_other_options_are_none(words: str) -> None:
    assert not takes_for_old(["make", *words.split()])
