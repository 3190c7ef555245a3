"""The rules of makefiles without a recipe: who waits for their targets has waited for their prerequisites.

    stage: a b      a stage, phony or not: no shell starts for it that could declare what it waited for
    $(S): %: out/%  of a static pattern
    a.o: a.h        of a target whose recipe another rule has: tailrace.mk takes it for one only where that did not run

The order is right whatever a target's recipe: when make has done with it, its prerequisites are over. What would be
wrong is a prerequisite that make does not have. So a rule is left out unless all that it was read with is the same when
make expands it again, at the end (Variables.settled), which is more than is asked of rules with several targets: those
would declare a target that nobody has as a prerequisite.

Rejected: rules of our own with a secondary expansion of `$$^`, which end make beside a double-colon rule, or make a
target of a file; tasks without a shell, which the report would show as having done nothing.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tailrace.make.purity import Use, Variables

Level = list[tuple[str, int]]
"""Of a conditional the lines with their numbers; with those after a rule when it has been read."""

_MOST_RULES = 20_000
_LONGEST = 1 << 16
_SPECIAL_TARGETS = re.compile(r"(\.[A-Z_]+\s*)+\Z")
_LITERAL = re.compile(r"[\w./@+ -]+\Z", re.ASCII)
"""Names that are their own keys (tailrace.mk)."""


@dataclass
class Without:
    """A rule, as it stands: of a static pattern with it; what is after "|" comes with the other prerequisites."""

    targets: str
    pattern: str
    prerequisites: str
    levels: list[tuple[Level, int]]
    """Each with how many lines the rule comes after."""
    file: int
    line: int
    recipe: bool


@dataclass(frozen=True)
class Passing:
    """Such a rule without a recipe, with the variables that make has to look at before it expands it."""

    targets: str
    pattern: str
    prerequisites: str
    names: frozenset[str]
    unknown: frozenset[str]
    conditions: tuple[tuple[str, ...], ...]

    def lines(self, number: int) -> Iterator[str]:
        """What has tailrace.mk know it."""
        if not self.pattern and all(_LITERAL.match(text) for text in (self.targets, self.prerequisites)):
            yield f"tailrace.from.{number} := {' '.join(_plain(self.prerequisites))}"
            yield from (f"tailrace.via.{name} += {number}" for name in _plain(self.targets))
            return
        yield f"tailrace_targets := {self.targets}"
        yield f"tailrace_from := {self.prerequisites}"
        if self.pattern:
            yield f"tailrace_of := {self.pattern}"
        yield f"$(call tailrace_{'static' if self.pattern else 'passing'}_rule,{number})"


def passing(found: Sequence[Without], variables: Variables) -> list[Passing]:
    """Those that have no recipe and come out at the end as they did."""
    known = (_known(rule, variables) for rule in found if _matters(rule))
    return [rule for rule in known if rule is not None][:_MOST_RULES]


def _matters(rule: Without) -> bool:
    if rule.recipe or not rule.prerequisites or _SPECIAL_TARGETS.match(rule.targets):
        return False
    # Of a pattern's rule it is no target's name.
    return "%" not in rule.targets and max(len(rule.targets), len(rule.prerequisites)) <= _LONGEST


def _known(rule: Without, variables: Variables) -> Passing | None:
    uses = [variables.used_by(text) for text in (rule.targets, rule.pattern, rule.prerequisites)]
    if not all(_settled(use, rule.file, rule.line, variables) for use in uses):
        return None
    conditions = []
    for level, count in rule.levels:
        for line, number in level[:count]:
            if not _lasts(line, number, rule.file, variables):
                return None
        conditions.append(tuple(line for line, _ in level[:count]))
    names = frozenset[str]().union(*(use.names for use in uses if use is not None))
    unknown = frozenset[str]().union(*(use.unknown for use in uses if use is not None))
    return Passing(rule.targets, rule.pattern, rule.prerequisites, names - unknown, unknown, tuple(conditions))


def _settled(use: Use | None, file: int, line: int, variables: Variables) -> bool:
    return use is not None and variables.settled(use.names, file, line)


def _lasts(line: str, number: int, file: int, variables: Variables) -> bool:
    """Whether the line of a conditional comes out as it did."""
    use = variables.used_by(line)
    defined = re.match(r"(?:else\s+)?ifn?def\s+(\S+)", line)
    names = {defined[1]} if defined else set()
    return use is not None and variables.settled(use.names | names, file, number)


def _plain(text: str) -> Iterator[str]:
    """Names as make has them."""
    return (name for name in (word.removeprefix("./") for word in text.split()) if name)
