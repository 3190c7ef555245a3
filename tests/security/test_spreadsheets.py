"""Names of files that a spreadsheet would run as formulas."""

import csv
import io
from pathlib import Path

from support import trace_writer as tw
from support.commands import run_cli

NAMES = ("/d/=1+1", '=HYPERLINK("http://x","y")', "+1", "-1", "@SUM(A1)", "\t=1", "plain", "'=1")


def test_cells_that_begin_like_a_formula_are_text_on_request(tmp_path: Path) -> None:
    lines = []
    for number, name in enumerate(NAMES):
        lines += [tw.file_line(f"f{number}", name, ino=number + 1)]
        lines += [tw.event(ts_us=tw.T0_US + number, dir="r", size=5, fhash=f"f{number}", ret=5)]
    run = tw.make_run(tmp_path / "run", {"n-7-1": tw.block(lines)})

    def cells(form: str) -> set[str]:
        done = run_cli("query", run, "--by", "path", "--agg", "sum:size", "--format", form)
        assert done.returncode == 0, done.stderr
        return {row["path"] for row in csv.DictReader(io.StringIO(done.stdout, newline=""))}

    plain = cells("csv")
    assert {name for name in plain if name.startswith(("=", "+", "-", "@"))}, "as it is, for programs"
    assert cells("csv-text") == {f"'{name}" if name.startswith(("=", "+", "-", "@", "\t")) else name for name in plain}
