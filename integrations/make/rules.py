"""Finds rules in the text of makefiles: GNU make has no variable that lists a rule's targets or those they wait for.

    grouped      a b &: c          one recipe makes several targets; since make 4.3
    a pattern's  %.a %.b: %.c      the same, also where a variable holds the patterns
    passing      stage: a b        without a recipe (passing.py)

make itself expands what is found (tailrace.mk), a second time, when all makefiles have been read. So a rule is left out
whose targets could come out otherwise then, or whose expansion could do or break anything (purity.py). To ask a second
make (`make -p`) was rejected: it would do all that the makefiles do when they are read.

Invariants: each makefile is read once; what can't be read, or is no text, has no rules. Rules that $(eval) makes are
not found.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tailrace.make.passing import Level, Passing, Without, passing
from tailrace.make.purity import Variables, closing

_LARGEST_BYTES = 1 << 20
_MOST_BYTES = 8 << 20
"""Of all makefiles; a makefile of a larger project's is generated, or data."""
_WRITTEN = {".mk", ".mak", ".make"}
_MOST_PATTERNS = 200
"""Each is compared with each target."""

_ASSIGNED = re.compile(r"(?:(?:export|override|private)\s+)*([^\s:#=+?!]+)\s*(:{0,3}|\?|\+|!)=(.*)", re.DOTALL)
_DEFINE = re.compile(r"(?:(?:export|override|private)\s+)*define\s+([^\s:#=+?!]+)\s*(:{0,3}|\?|\+|!)=?\s*\Z")
_CONDITION = re.compile(r"""ifn?def\s+[^\s#]+\s*\Z|ifn?eq\s*\(.*,.*\)\s*\Z|ifn?eq\s*(["']).*\1\s+(["']).*\2\s*\Z""")
_UNKNOWN = "$(shell)"
"""In the place of a condition that isn't understood: it is none that lasts."""
_EVALUATED = re.compile(r"eval\s+(?:(?:export|override|define)\s+)*([^\s:#=+?!$(){}]+)\s*(?::{0,3}|\?|\+|!)=")
_SPECIAL = {wanted: re.compile(rf"[\\$\{wanted}]") for wanted in ":;#|"}
_LONGEST_CONDITION = 10_000
_LONGEST_TARGETS = 1 << 16
_INCLUDES = {"include", "-include", "sinclude"}
_DIRECTIVES = {"vpath", "export", "unexport", "undefine", "load", "-load", "define"}


@dataclass(frozen=True)
class Rule:
    """targets, sources: as the makefile has them, targets and those prerequisites that are patterns without variables;
    names: of the variables in `targets`; conditions: the lines that it is read under, of each level."""

    targets: str
    sources: str
    grouped: bool
    names: frozenset[str]
    unknown: frozenset[str]
    conditions: tuple[tuple[str, ...], ...]


@dataclass
class _Found:
    """A rule before all variables are known."""

    targets: str
    sources: str
    grouped: bool
    levels: list[tuple[Level, int]]
    """Each with how many lines the rule comes after."""
    file: int
    line: int


@dataclass
class _Reader:
    """Of one makefile after the other."""

    variables: Variables = field(default_factory=Variables)
    found: list[_Found] = field(default_factory=list)
    without: list[Without] = field(default_factory=list)

    def read(self, file: int, name: str, text: str) -> None:
        self.variables.files.append(name)
        conditions: list[Level] = []
        defining, depth, prefix = "", 0, "\t"
        for number, line in enumerate(_logical_lines(text)):
            if "eval" in line:
                self.variables.evaluated(_EVALUATED.findall(line), file, number)
            if depth:
                opens, closes = line.split(None, 1)[:1] == ["define"], line.split("#")[0].strip() == "endef"
                depth += opens - closes
                if depth:
                    self.variables.append(defining, line)
                    if assigned := _ASSIGNED.match(line.strip()):
                        self.variables.evaluated([assigned[1]])
                continue
            if line.startswith(prefix):
                if line.strip() and self.without:
                    self.without[-1].recipe = True
                continue
            line = _without_comment(line).strip()
            if not line or _conditional(line, number, conditions):
                continue
            if started := _DEFINE.match(line):
                defining, depth = started[1], 1
                self.variables.assign(defining, started[2] or "=", "", file, number, bool(conditions))
            elif assigned := _ASSIGNED.match(line):
                if assigned[1] == ".RECIPEPREFIX":
                    prefix = assigned[3].strip()[:1] or "\t"
                self.variables.assign(assigned[1], assigned[2] or "=", assigned[3], file, number, bool(conditions))
            elif (word := line.split(None, 1)[0]) in _INCLUDES:
                self.variables.includes.append((file, number, line))
            elif word not in _DIRECTIVES:
                self._rule(line, [(level, len(level)) for level in conditions], file, number)

    def _rule(self, line: str, levels: list[tuple[Level, int]], file: int, number: int) -> None:
        colon = _outside(line, ":")
        if colon <= 0:
            return
        grouped = line[colon - 1] == "&" and line[colon - 2 : colon - 1] != "\\"
        targets, rest = line[: colon - grouped].strip(), line[colon:].lstrip(":")
        recipe = _outside(rest, ";")
        has_recipe = recipe >= 0 and bool(rest[recipe + 1 :].strip())
        rest = rest if recipe < 0 else rest[:recipe]
        if _ASSIGNED.match(rest.strip()) or not targets:
            return
        targets = targets.replace("\t", " ")
        static = _outside(rest, ":")
        pattern, needs = (rest[: max(static, 0)].strip(), rest[static + 1 :].replace("\t", " ").strip())
        order = _outside(needs, "|")
        both = needs if order < 0 else f"{needs[:order]} {needs[order + 1 :]}".strip()
        self.without.append(Without(targets, pattern, both, levels, file, number, has_recipe))
        if static >= 0 and not grouped:
            return
        normal = needs.split("|")[0]
        sources = [word for word in normal.split() if "%" in word and not re.search(r"[$\\#(){},]", word)]
        self.found.append(_Found(targets, " ".join(sources), grouped, levels, file, number))


def rules(makefiles: Sequence[Path], *, grouped: bool) -> tuple[list[Rule], list[Passing]]:
    """The rules of these files, read in this order, that make several targets by one recipe, and those without one.

    grouped: whether make knows `&:`.
    """
    reader = _Reader()
    for file, (name, text) in enumerate(_texts(makefiles)):
        reader.read(file, name, text)
    return _of_several(reader, grouped), passing(reader.without, reader.variables)


def _of_several(reader: _Reader, grouped: bool) -> list[Rule]:
    kept = []
    patterns = 0
    for found in reader.found:
        rule = _known(found, reader.variables)
        if rule is None or (rule.grouped and not grouped):
            continue
        patterns += not rule.grouped or "%" in rule.targets
        if rule.grouped or patterns <= _MOST_PATTERNS:
            kept.append(rule)
    return kept


def _known(found: _Found, variables: Variables) -> Rule | None:
    """`found`, unless it has one target, or its targets can't be known."""
    use = variables.used_by(found.targets) if len(found.targets) <= _LONGEST_TARGETS else None
    if use is None or variables.changes(use.names, found.file, found.line):
        return None
    several = "$" in found.targets or len(found.targets.replace("\\ ", "").split()) > 1
    pattern = "%" in found.targets or variables.may_have(use.names, "%")
    if not several or not (found.grouped or pattern):
        return None
    conditions = tuple(tuple(line for line, _ in level[:count]) for level, count in found.levels)
    if not all(_lasts(*each, found.file, variables) for level, _ in found.levels for each in level):
        if any(len(level) > 1 for level, _ in found.levels):
            return None  # the same targets may be made by other rules
        conditions = ()  # more likely read than not; what is expanded does no harm
    return Rule(found.targets, found.sources, found.grouped, use.names - use.unknown, use.unknown, conditions)


def _lasts(line: str, number: int, file: int, variables: Variables) -> bool:
    """Whether the line of a conditional comes out as it did; an include guard doesn't."""
    use = variables.used_by(line)
    defined = re.match(r"(?:else\s+)?ifn?def\s+(\S+)", line)
    names = {defined[1]} if defined else set()
    return use is not None and not variables.changes(use.names | names, file, number)


def _texts(makefiles: Sequence[Path]) -> Iterator[tuple[str, str]]:
    """Names without folders, and texts."""
    left = _MOST_BYTES
    for path in makefiles:
        try:
            if not path.is_file() or path.stat().st_size > min(_LARGEST_BYTES, left):
                continue
            data = path.read_bytes()
        except OSError:
            continue
        left -= len(data)
        # Of thousands of files of a compiler's dependencies none has either.
        written = path.suffix in _WRITTEN or path.name.lower().endswith("makefile")
        if b"\0" not in data and (written or any(one in data for one in (b"=", b"%", b"&:", b"define"))):
            yield path.name, data.decode("utf-8", "surrogateescape")


def _logical_lines(text: str) -> Iterator[str]:
    parts: list[str] = []
    for raw in text.split("\n"):
        line = raw.removesuffix("\r")
        if (len(line) - len(line.rstrip("\\"))) % 2:
            parts.append(line[:-1].rstrip() if not parts else line[:-1].strip())
            continue
        yield " ".join([*parts, line.strip()]) if parts else line
        parts = []
    if parts:
        yield " ".join(parts)


def _outside(text: str, wanted: str) -> int:
    """Where `wanted` is first, outside of references of variables and not after a backslash; -1 where it is not."""
    if wanted not in text:
        return -1
    i = 0
    while found := _SPECIAL[wanted].search(text, i):
        i = found.start()
        if text[i] == wanted:
            return i
        if text[i] == "$" and text[i + 1 : i + 2] in ("(", "{"):
            i = closing(text, i + 1)
            if i < 0:
                return -1
            i += 1
        else:
            i += 1 + (text[i] == "\\")
    return -1


def _without_comment(line: str) -> str:
    start = _outside(line, "#")
    return line if start < 0 else line[:start]


def _conditional(line: str, number: int, conditions: list[Level]) -> bool:
    """Whether the line is one of a conditional; then it is in `conditions`."""
    word = re.split(r"[\s(\"']", line, maxsplit=1)[0]
    if word in ("ifdef", "ifndef", "ifeq", "ifneq"):
        conditions.append([(_condition(line), number)])
    elif word == "else":
        rest = line[4:].strip()
        if conditions:
            conditions[-1].append((f"else {_condition(rest)}" if rest else line, number))
    elif word == "endif":
        if conditions:
            conditions.pop()
    else:
        return False
    return True


def _condition(line: str) -> str:
    return line if len(line) < _LONGEST_CONDITION and _CONDITION.match(line) else _UNKNOWN
