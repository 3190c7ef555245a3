"""The catalogue's SQL is that of SQLite 3.26, which systems of glibc 2.28 have: newer syntax is an error in a report.

Python has the system's SQLite. Ours here is newer and takes everything, so the statements are read.
"""

import ast
import re
from pathlib import Path

import pytest

ANALYZER = Path(__file__).parents[2] / "analyzer"
NEWER = {
    "RETURNING (3.35)": r"\bRETURNING\b",
    "DO UPDATE without the columns of a conflict (3.35)": r"ON CONFLICT\s+DO\s+UPDATE",
    "MATERIALIZED (3.35)": r"\bMATERIALIZED\b",
    "UPDATE ... FROM (3.33)": r"\bUPDATE\s+\S+\s+SET\b[^()]*\bFROM\b",
    "NULLS FIRST or LAST (3.30)": r"\bNULLS\s+(FIRST|LAST)\b",
    "FILTER (3.30)": r"\bFILTER\s*\(",
    "STRICT tables (3.37)": r"\)\s*STRICT\b",
    "-> and ->> of JSON (3.38)": r"->>?\s*'",
    "RIGHT and FULL JOIN (3.39)": r"\b(RIGHT|FULL)\s+(OUTER\s+)?JOIN\b",
    "IS DISTINCT FROM (3.39)": r"\bIS\s+(NOT\s+)?DISTINCT\s+FROM\b",
    "newer functions": r"\b(iif|unixepoch|string_agg|concat|concat_ws|timediff)\s*\(",
}
SQL = re.compile(r"\b(SELECT|INSERT|UPDATE|DELETE|CREATE)\b|\bON CONFLICT\b")


def texts_of(source: str) -> list[str]:
    """Each string, and each f-string with X for what is filled in."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.JoinedStr):
            parts = (str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values)
            found.append("".join(parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.append(node.value)
    return [text for text in found if SQL.search(text)]


@pytest.mark.parametrize("kind", NEWER)
def test_the_catalogues_statements_have_no_newer_syntax(kind: str) -> None:
    modules = [path for path in ANALYZER.rglob("*.py") if re.search(r"\bsqlite3\b", path.read_text())]
    statements = {path: texts_of(path.read_text()) for path in modules}
    assert sum(map(len, statements.values())) > 50, "no statements were read"
    found = [(path.name, text) for path, texts in statements.items() for text in texts if re.search(NEWER[kind], text)]
    assert found == []
