"""Whether make may expand a text of a makefile a second time: nothing happens, nothing breaks, and the same comes out.

    Variables.used_by    the variables that a text refers to, and those that these do
    Variables.changes    whether one of them may have had another value where the text stands
    Variables.settled    whether that is excluded, as far as the makefiles' text says
    closing              where a reference of a variable ends

Invariant: what isn't understood is refused, so that the user's make never fails by our reading of its makefile.
"""

import re
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass, field

_PURE = set(
    "abspath addprefix addsuffix basename dir filter filter-out findstring firstword flavor foreach if join lastword "
    "notdir or and origin patsubst realpath sort strip subst suffix value wildcard word wordlist words call".split()
)
_IMPURE = {"shell", "error", "warning", "info", "eval", "file", "guile"}
_LEAST_ARGUMENTS = {"if": 2, "foreach": 3, "subst": 3, "patsubst": 3, "join": 2, "wordlist": 3, "word": 2, "call": 1}
_LEAST_ARGUMENTS.update(dict.fromkeys(("addprefix", "addsuffix", "filter", "filter-out", "findstring"), 2))
_NUMBERED = {"word", "wordlist"}
"""An argument that is no number from 1 ends make."""
_FUNCTION = re.compile(r"([a-z-]+)(?:[ \t]+(.*))?\Z", re.DOTALL)
_KINDS = {"(": re.compile("[()]"), "{": re.compile("[{}]")}
_NAME = re.compile(r"[\w.@%+*^<?|/-]+\Z")
_DEEPEST = 50


@dataclass(frozen=True)
class Use:
    """names: all variables that are expanded; unknown: those of them that no makefile assigns."""

    names: frozenset[str]
    unknown: frozenset[str]


@dataclass
class _Variable:
    texts: list[str] = field(default_factory=list)
    """The values of which make expands each whenever it is used."""
    values: list[str] = field(default_factory=list)
    recursive: bool = False
    files: set[int] = field(default_factory=set)
    last: dict[int, int] = field(default_factory=dict)


@dataclass
class Variables:
    """The variables that makefiles assign."""

    files: list[str] = field(default_factory=list)
    """Names without folders of the makefiles in the order in which make began them; a file's number is its place."""
    includes: list[tuple[int, int, str]] = field(default_factory=list)
    """File, line and text of the directives."""
    _of: dict[str, _Variable] = field(default_factory=dict)
    _evaluated: dict[str, list[tuple[int, int]]] = field(default_factory=dict)

    def evaluated(self, names: Iterable[str], file: int = -1, line: int = 0) -> None:
        """Variables that $(eval) assigns in that line; with no file nobody knows where."""
        for name in names:
            self._evaluated.setdefault(name, []).append((file, line))

    def assign(self, name: str, operator: str, value: str, file: int, line: int, conditional: bool) -> None:
        """operator: what comes before "=" ("=" where nothing does)."""
        if "$" in name:
            return
        found = self._of.setdefault(name, _Variable())
        found.values.append("$" if operator == "!" else value)
        found.last[file] = line
        found.recursive = found.recursive or operator in ("=", "?")
        if operator in ("=", ":", "::", ":::", "!") and not conditional:
            found.files.add(file)
        if operator in ("=", "?", "+"):
            found.texts.append(value)

    def append(self, name: str, line: str) -> None:
        """A line of a variable's text between `define` and `endef`."""
        if name in self._of:
            self._of[name].texts.append(line)
            self._of[name].values.append(line)

    def used_by(self, text: str) -> Use | None:
        """None: the text can't be expanded again."""
        names: set[str] = set()
        pending: set[str] = set()
        return Use(frozenset(names), frozenset(names - self._of.keys())) if self._walk(text, names, pending) else None

    def _walk(self, text: str, names: set[str], pending: set[str]) -> bool:
        found = list(_references(text))
        if None in found or len(pending) > _DEEPEST:
            return False
        for name in found:
            assert name is not None
            if name in pending:  # a variable that refers to itself ends make
                return False
            if name in names:
                continue
            names.add(name)
            variable = self._of.get(name)
            # What is only added to is expanded as what it is added to.
            lazy = variable is not None and (variable.recursive or not variable.files)
            if variable is None or not lazy:
                continue
            pending.add(name)
            if not all(self._walk(part, names, pending) for part in variable.texts):
                return False
            pending.remove(name)
        return True

    def changes(self, names: Iterable[str], file: int, line: int) -> bool:
        """Whether a variable is assigned after that line, or anew by several makefiles."""
        known = [self._of[name] for name in names if name in self._of]
        return any(len(one.files) > 1 or one.last.get(file, -1) > line for one in known)

    def settled(self, names: Set[str], file: int, line: int) -> bool:
        """Whether these variables have at the end the values that they had at that line."""
        if self.changes(names, file, line):
            return False
        if any(at != file or number > line for name in names for at, number in self._evaluated.get(name, ())):
            return False
        known = names & self._of.keys()
        return all(self._of[name].last.keys() <= {file} or self._before(name, file, line) for name in known)

    def _before(self, name: str, file: int, line: int) -> bool:
        """Whether the one other makefile that assigns the variable had done so."""
        (other, last), *more = self._of[name].last.items()
        if more:
            return False
        if other > file:  # included by this one, or read after it
            here = [number for at, number, text in self.includes if at == file and _may_name(text, self.files[other])]
            return bool(here) and max(here) < line
        of_other = [(number, text) for at, number, text in self.includes if at == other]
        named = [number for number, text in of_other if _may_name(text, self.files[file])]
        return all(last < number for number in named or (number for number, _ in of_other))

    def may_have(self, names: Iterable[str], wanted: str) -> bool:
        """Whether a value of one of these variables may have that character."""
        values = (self._of[name].values if name in self._of else ("$",) for name in names)
        return any(wanted in value or "$" in value for each in values for value in each)


def _may_name(directive: str, file: str) -> bool:
    return file in directive or "$" in directive or "*" in directive


def closing(text: str, opened: int) -> int:
    """Where the parenthesis at `opened` is closed, of its kind as make counts them; -1: nowhere."""
    kind = text[opened]
    depth = 0
    for found in _KINDS[kind].finditer(text, opened):
        depth += 1 if found[0] == kind else -1
        if not depth:
            return found.start()
    return -1


def _references(text: str, depth: int = 0) -> Iterator[str | None]:
    """The names of the variables in a text; None for what is refused."""
    i = text.find("$")
    while i >= 0:
        one = text[i + 1 : i + 2]
        if one in ("(", "{"):
            end = closing(text, i + 1)
            if end < 0 or depth > _DEEPEST:
                yield None
                return
            yield from _reference(text[i + 2 : end], depth + 1)
            i = end - 1
        elif one != "$" and not one.isdigit():
            yield one if _NAME.match(one) else None
        i = text.find("$", i + 2)


def _reference(body: str, depth: int) -> Iterator[str | None]:
    function = _FUNCTION.match(body)
    if body.isdigit():  # an argument of $(call)
        return
    # The list of makefiles is longer at the end.
    if body.strip() == "MAKEFILE_LIST" or (function and function[1] in _IMPURE):
        yield None
    elif function and function[1] in _PURE and function[2] is not None:
        yield from _arguments(function[1], function[2], depth)
    else:
        name, _, rest = body.partition(":")
        yield name if _NAME.match(name) else None
        yield from _references(rest, depth)


def _arguments(function: str, text: str, depth: int) -> Iterator[str | None]:
    arguments = _split(text)
    if len(arguments) < _LEAST_ARGUMENTS.get(function, 1):
        yield None
    if function in _NUMBERED and not all(re.fullmatch(r"\s*[1-9][0-9]{0,8}\s*", one) for one in arguments[:-1]):
        yield None
    if function in ("call", "value", "origin", "flavor"):
        name = arguments[0].strip()
        # $(call) of a function's name, or of a name that is computed.
        if function == "call" and (name in _PURE | _IMPURE or "$" in name or not name):
            yield None
        if function == "call":
            yield name
    yield from _references(text, depth)


def _split(text: str) -> list[str]:
    """At the commas outside of parentheses."""
    parts, start, depth = [], 0, 0
    for i, one in enumerate(text):
        depth += (one in "({") - (one in ")}")
        if one == "," and not depth:
            parts.append(text[start:i])
            start = i + 1
    return [*parts, text[start:]]
