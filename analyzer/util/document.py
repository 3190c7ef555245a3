"""What is shown of a noun (a task, a file, a stage, a host, a rank, accesses): plain data with units, in parts.

    the noun's object --insights/views.py--> Document --terminal.py--> lines of a terminal, a console
                                                      --html.py------> a notebook

A document has the words and the order of what is shown; a renderer has the look. Amounts keep their units until they
are rendered: their text is that of formatting.py.
"""

from __future__ import annotations

import shlex
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, NamedTuple, TypeAlias, TypeVar

from tailrace.analyzer.util.formatting import bytes_text, count_text, moment_text, time_text

_Item = TypeVar("_Item")


class Bytes(NamedTuple):
    """An amount of data."""

    amount: float

    def __str__(self) -> str:
        return bytes_text(self.amount)


class Span(NamedTuple):
    """How long something took."""

    ns: float

    def __str__(self) -> str:
        return time_text(self.ns)


class Moment(NamedTuple):
    """When something was, as `moment_text` has it."""

    ns: int | None
    first_ns: int | None

    def __str__(self) -> str:
        return moment_text(self.ns, self.first_ns)


class Count(NamedTuple):
    """How many there are of something."""

    number: int
    one: str
    plural: str = "s"

    def __str__(self) -> str:
        return count_text(self.number, self.one, self.plural)


class Command(NamedTuple):
    """A command line; a program alone where its arguments are unknown."""

    words: Sequence[str]
    program: str = ""

    def __str__(self) -> str:
        return shlex.join(self.words) if self.words else self.program


Value: TypeAlias = str | Bytes | Span | Moment | Count | Command
Cells: TypeAlias = Sequence[Value]
"""A cell without a text is left out of a line, with what leads to it."""


@dataclass(frozen=True)
class Column:
    """A column. head: above it in a table; lead, tail: around a cell in a line, which goes on further to the right
    where lead begins with a line break."""

    head: str
    lead: str = ", "
    tail: str = ""
    number: bool = False


@dataclass(frozen=True)
class LeftOut:
    """Rows that a document doesn't have: "and 3 files more"."""

    number: int
    one: str = ""
    plural: str = "s"
    word: str = "and"

    def text(self, more: int = 0) -> str:
        """In words, "" for none; more: rows that a renderer leaves out."""
        number = self.number + more
        if number <= 0:
            return ""
        return f"{self.word} {count_text(number, self.one, self.plural) if self.one else f'{number:,}'} more"


NOTHING_LEFT_OUT = LeftOut(0)


@dataclass(frozen=True)
class Facts:
    """Words and their values, a line each; the first `inline` ones share a line. A value without a word is a line."""

    facts: Sequence[tuple[str, Value]]
    inline: int = 0


@dataclass(frozen=True)
class Lines:
    """Lines, each with its depth."""

    lines: Sequence[tuple[int, str]]

    @classmethod
    def flat(cls, texts: Sequence[str]) -> Lines:
        """Lines of no depth."""
        return cls([(0, text) for text in texts])


@dataclass(frozen=True)
class Group:
    """Rows of a table, and what they have in common."""

    rows: Sequence[Cells]
    title: str = ""
    left_out: LeftOut = NOTHING_LEFT_OUT


@dataclass(frozen=True)
class Table:
    """Rows of cells. On a terminal a row is a sentence, unless the table is a `grid`, which does without its `spare`
    columns where there is no room."""

    columns: Sequence[Column]
    groups: Sequence[Group]
    title: str = ""
    grid: bool = False
    spare: Sequence[str] = ()


@dataclass(frozen=True)
class Tree:
    """Nodes in preorder, each with its depth. mark: what a node below another one begins with."""

    columns: Sequence[Column]
    nodes: Sequence[tuple[int, Cells]]
    mark: str
    left_out: LeftOut = NOTHING_LEFT_OUT


@dataclass(frozen=True)
class Section:
    """Parts that stand apart from those before."""

    title: str
    parts: Sequence[Part]


Part: TypeAlias = "Facts | Lines | Table | Tree | LeftOut | Section"


@dataclass(frozen=True)
class Document:
    """Parts under a title."""

    title: str
    parts: Sequence[Part] = field(default_factory=list)


def first_rows(
    items: Sequence[_Item], row: Callable[[_Item], Cells], most: int, left_out: LeftOut = NOTHING_LEFT_OUT
) -> Group:
    """The rows of the first `most` items; left_out: the words for the others."""
    rest = LeftOut(len(items) - most, left_out.one, left_out.plural, left_out.word)
    return Group([row(item) for item in items[:most]], left_out=rest)


def listing(title: str, columns: Sequence[Column], rows: Group) -> Section | None:
    """A section of rows, if there are any."""
    return Section(title, [Table(columns, [rows])]) if rows.rows else None


def named(names: Sequence[str], most: int, ending: str = "") -> str:
    """The first `most` names, and how many others there are; ending: what these are, if that needs a word."""
    more = f" and {len(names) - most:,} more{ending}" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"


class Shown(ABC):
    """Base of dataclasses with a document. To be declared with `@dataclass(repr=False)`."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @abstractmethod
    def document(self) -> Document:
        """What is shown of it."""

    def to_json(self) -> dict[str, Any]:
        """It as plain values."""
        return asdict(self)

    def __repr__(self) -> str:
        from tailrace.analyzer.util import terminal

        return terminal.short(self.document())

    def _repr_html_(self) -> str:
        from tailrace.analyzer.util import html

        return html.whole(self.document())
