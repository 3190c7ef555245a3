"""Names of files that a spreadsheet would run as formulas."""

import csv
import io
import subprocess
from pathlib import Path

from support import trace_writer as tw
from support.commands import TAILRACE

NAMES = ("/d/=1+1", '=HYPERLINK("http://x","y")', "+1", "-1", "@SUM(A1)", "\t=1", "plain", "'=1")


def test_cells_that_begin_like_a_formula_are_text_on_request(tmp_path: Path) -> None:
    lines = []
    for number, name in enumerate(NAMES):
        lines += [tw.file_line(f"f{number}", name, ino=number + 1)]
        lines += [tw.event(ts_us=tw.T0_US + number, dir="r", size=5, fhash=f"f{number}", ret=5)]
    run = tw.make_run(tmp_path / "run", {"n-7-1": tw.block(lines)})

    def cells(form: str) -> set[str]:
        words = [*TAILRACE, "query", str(run), "--by", "path", "--agg", "sum:size", "--format", form]
        text = subprocess.run(words, check=True, capture_output=True, text=True).stdout
        return {row["path"] for row in csv.DictReader(io.StringIO(text))}

    plain = cells("csv")
    assert {name for name in plain if name.startswith(("=", "+", "-", "@"))}, "as it is, for programs"
    assert cells("csv-text") == {f"'{name}" if name.startswith(("=", "+", "-", "@", "\t")) else name for name in plain}
