"""Documents: a terminal and a notebook show the same parts; nothing is left out without a word; names stay text."""

from __future__ import annotations

from tailrace.analyzer.util import html
from tailrace.analyzer.util.document import (
    Bytes,
    Column,
    Command,
    Count,
    Document,
    Facts,
    Group,
    LeftOut,
    Lines,
    Moment,
    Part,
    Section,
    Shown,
    Span,
    Table,
    Tree,
    first_rows,
    named,
)
from tailrace.analyzer.util.terminal import MOST_LINES, Screen, document_lines

FILES = (Column("file"), Column("bytes", ": ", number=True), Column("calls", " in ", number=True), Column("", "\n"))
PROCESS = Column("command", "\n")


def on_terminal(*parts: Part, title: str = "noun", rows: int | None = None, rest: str = "") -> str:
    return "\n".join(document_lines(Document(title, parts), Screen(rows=rows, rest=rest)))


def in_notebook(*parts: Part) -> str:
    text = html.whole(Document("noun", parts))
    return text[text.index("</style>") :].replace("</style>", "")


def test_facts_are_lines_and_a_table() -> None:
    facts = Facts([("stage", "a"), ("task", "b"), ("", "parsl 1"), ("status", "failed"), ("", "no call")], inline=3)
    assert on_terminal(facts) == "noun\n  stage a, task b, parsl 1\n  status: failed\n  no call"
    assert "<td>status</td><td>failed</td>" in in_notebook(facts)


def test_a_row_is_a_sentence_on_a_terminal_and_has_cells_in_a_notebook() -> None:
    rows = [("/a", Bytes(2048), Count(1200, "call"), "then"), ("/b", Bytes(1), "", ""), ("", Bytes(1), "", "x")]
    part = Section("Files:", [Table(FILES, [Group(rows)])])
    lines = ["noun", "", "Files:", "  /a: 2.00 KiB in 1,200 calls", "    then", "  /b: 1 B", "  1 B", "    x"]
    assert on_terminal(part).splitlines() == lines
    text = in_notebook(part)
    assert '<div class="h">Files</div>' in text
    assert '<td>/a</td><td class="n">2.00 KiB</td><td class="n">1,200</td><td>then</td>' in text


def test_a_number_that_begins_a_line_is_in_a_column() -> None:
    columns = (Column("time", number=True), Column("", "  "), Column("file", "\n"))
    part = Table(columns, [Group([(Span(1500), "reading", "/a"), (Span(12_000_000_000), "computing", "")])])
    lines = ["noun", "    1.50 us  reading", "             /a", "     12.0 s  computing"]
    assert on_terminal(part).splitlines() == lines
    assert "<th>file</th>" in in_notebook(part)


def test_a_column_of_nothing_is_not_in_a_notebook() -> None:
    text = in_notebook(Table(FILES, [Group([("/a", Bytes(1), "", ""), ("/b", Bytes(2), "", "")])]))
    assert "bytes" in text and "calls" not in text


def test_groups_stand_apart_and_their_titles_are_a_column() -> None:
    def row(name: str) -> tuple[str, ...]:
        return (name, "", "", "")

    one = Group([row("/a"), row("/b")], "version 1")
    part = Table(FILES, [one, Group([row("/c")]), Group([], "version 2")])
    lines = ["noun", "", "  version 1", "    /a", "    /b", "    /c", "", "  version 2"]
    assert on_terminal(part).splitlines() == lines
    text = in_notebook(part)
    assert (
        "<td>version 1</td><td>/a</td></tr><tr><td></td><td>/b</td>" in text and "<td>version 2</td><td></td>" in text
    )


def test_what_is_left_out_is_counted_with_what_the_renderer_leaves_out() -> None:
    rows = first_rows(range(9), lambda number: (str(number), "", "", ""), 7, LeftOut(0, "process", "es", "read by"))
    part = Table(FILES, [rows])
    assert on_terminal(part).splitlines()[-1] == "  read by 2 processes more"
    assert on_terminal(part, rows=3, rest=": see").splitlines()[3:] == ["  2", "  read by 6 processes more: see"]
    assert in_notebook(part).endswith('<div class="q">read by 2 processes more</div></div>')
    assert on_terminal(LeftOut(0, "file")) == "noun" and on_terminal(LeftOut(1)).endswith("and 1 more")
    assert (named(["a", "b"], 2), named(["a", "b", "c"], 2, " ranges")) == ("a, b", "a, b and 1 more ranges")


def test_a_tree_goes_to_the_right_with_its_commands() -> None:
    nodes = [(0, ("/out", "")), (1, ("make", Command(["sh", "-c", "a b"]))), (2, ("/in", ""))]
    part = Section("Made from:", [Tree((Column(""), PROCESS), nodes, "<-", LeftOut(4, "line"))])
    lines = ["Made from:", "  /out", "    <- make", "       sh -c 'a b'", "      <- /in", "  and 4 lines more"]
    assert on_terminal(part, title="").splitlines() == lines
    assert "<td>&nbsp;&nbsp;&nbsp;&nbsp;make</td><td><code>sh -c &#x27;a b&#x27;</code></td>" in in_notebook(part)


def test_a_grid_has_heads_and_no_two_empty_lines() -> None:
    grid = Table((Column("rank"), Column("bytes")), [Group([("0", Bytes(1)), ("1", Bytes(2048))])], grid=True)
    lines = on_terminal(grid, grid, Lines([(0, "end")]))
    assert lines.count("rank") == 2 and "\n\n\n" not in lines and lines.endswith("\n\n  end")
    assert "<td>1</td><td>2.00 KiB</td>" in in_notebook(grid)


def test_names_stay_text() -> None:
    hostile = "<b>\x1b[31m\n\u202e"
    rows = Table(FILES, [Group([(hostile,) * 4])])
    parts: list[Part] = [Facts([(hostile, hostile)]), Lines([(1, hostile)]), Section(hostile, [rows])]
    parts += [Table((Column("rank"),), [Group([(hostile,)])], grid=True), Tree((PROCESS,), [(0, (hostile,))], "<-")]
    for text in (on_terminal(*parts), in_notebook(*parts)):
        assert not set("\x1b\u202e") & set(text) and r"\x1b[31m\n\u202e" in text
    assert "<b>" not in in_notebook(*parts)


def test_an_object_prints_the_first_rows_and_some_lines() -> None:
    class Noun(Shown):
        def document(self) -> Document:
            rows = [(f"/{number}", "", "", "") for number in range(30)]
            return Document("noun", [Section(f"part {at}", [Table(FILES, [Group(rows)])]) for at in range(20)])

    lines = repr(Noun()).splitlines()
    assert lines[2:9] == ["part 0", *(f"  /{number}" for number in range(5)), "  and 25 more"]
    assert len(lines) == MOST_LINES + 1 and lines[-1] == f"and {1 + 20 * 8 - MOST_LINES} lines more"
    assert "/29" in Noun()._repr_html_()


def test_a_moment_that_is_unknown_is_left_out() -> None:
    columns = (Column("process"), Column("begin", " ", number=True), Column("end", " to ", number=True))
    rows = [("n:1", Moment(None, 5), Moment(None, 5)), ("n:2", Moment(5, 5), Moment(1_000_000_005, 5))]
    assert on_terminal(Table(columns, [Group(rows)])).splitlines()[1:] == ["  n:1", "  n:2 +0.000 s to +1.000 s"]
