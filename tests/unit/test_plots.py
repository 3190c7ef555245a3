"""Figures of a run: what they draw are the run's own numbers, with units, and names as they are."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

matplotlib = pytest.importorskip("matplotlib", reason="figures need matplotlib: pip install 'tailrace[notebook]'")
from matplotlib.figure import Figure

from support import trace_writer as tw
from support.flowcase import MS, Story
from support.story_run import on_disk
from tailrace.analyzer.notebook.plots import Plots
from tailrace.analyzer.run import Run
from tailrace.errors import QueryError

NAME = r"$\alpha$ cost"
FIGURES = ("timeline", "bandwidth", "sizes", "heat_map", "flows")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    s = Story()
    for i in range(4):
        s.write(f"/mid/{i}", 0, 3_000_000, dur=50 * MS, stage="make", task=f"m{i}", pid=10 + i)
        s.read(f"/mid/{i}", 0, 3_000_000, dur=20 * MS, stage=NAME, task=f"u{i}", pid=20 + i)
        s.read(f"/mid/{i}", 5, 17, stage=NAME, task=f"u{i}", pid=20 + i)
    return on_disk(s.run(), tmp_path_factory.mktemp("plots") / "run")


def texts(figure: Figure) -> list[str]:
    found = []
    for axes in figure.axes:
        found += [axes.get_title(), axes.get_xlabel(), axes.get_ylabel()]
    return found


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_is_matplotlibs_and_a_notebook_shows_it(run: Run, name: str) -> None:
    figure = getattr(run.plot, name)()
    assert isinstance(figure, Figure) and figure._repr_png_().startswith(b"\x89PNG")
    first = figure.axes[0]
    assert first.get_title() and first.get_ylabel() and figure.axes[-1 if name == "bandwidth" else 0].get_xlabel()
    if name in ("timeline", "bandwidth", "heat_map"):
        assert "time since the first event (s)" in texts(figure)


def test_a_name_is_no_formula(run: Run) -> None:
    figure = run.plot.timeline()
    figure.canvas.draw()
    shown = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert shown == ["make", NAME.replace("$", r"\$")]  # which matplotlib draws as `NAME`


def test_bandwidth_adds_up_to_the_bytes_of_the_run(run: Run) -> None:
    figure = run.plot.bandwidth()
    for axes, column in zip(figure.axes, ("read_bytes", "written_bytes"), strict=True):
        unit = {"KiB/s": 1 << 10, "MiB/s": 1 << 20}[axes.get_ylabel().split("(")[1].rstrip(")")]
        top = np.zeros(120)
        for patch in axes.patches:
            values, edges, _ = patch.get_data()
            top = np.maximum(top, values)
        moved = float((top * np.diff(edges)).sum() * unit)
        assert moved == pytest.approx(run.stages[column].sum(), rel=1e-6)


def test_the_sizes_are_those_of_all_calls(run: Run) -> None:
    axes = run.plot.sizes().axes[0]
    heights = {patch.get_facecolor(): 0 for patch in axes.patches}
    for patch in axes.patches:
        heights[patch.get_facecolor()] += patch.get_height()
    assert sorted(heights.values()) == [4, 8]
    assert [label.get_text() for label in axes.get_legend().get_texts()] == ["read: 8 calls", "written: 4 calls"]
    assert len(run.plot.sizes(stage="make").axes[0].get_legend().get_texts()) == 2


def test_the_flows_are_those_of_the_graph(run: Run) -> None:
    ((source, target, values),) = run.dataflow().edges(data=True)
    axes = run.plot.flows().axes[0]
    rows, columns = (
        [label.get_text() for label in labels()] for labels in (axes.get_yticklabels, axes.get_xticklabels)
    )
    assert rows == ["make"] and columns == [NAME.replace("$", r"\$")]
    assert float(axes.images[0].get_array().max()) == values["bytes"] == 12_000_068


def test_an_unknown_heat_map_names_those_that_there_are(run: Run) -> None:
    assert run.plot.heat_map("busy").axes[1].get_ylabel() == "processes in a call on a file (mean number)"
    with pytest.raises(QueryError, match="there is no heat map of 'reads'; there are read, wrote, busy"):
        run.plot.heat_map("reads")


def test_an_empty_run_has_empty_figures(tmp_path: Path) -> None:
    tw.make_run(tmp_path / "run", {})
    import tailrace

    for name in FIGURES:
        assert getattr(Plots(tailrace.open(tmp_path / "run")), name)()._repr_png_()


def test_without_matplotlib_the_error_names_the_extra(run: Run) -> None:
    program = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "import tailrace\n"
        f"run = tailrace.open({str(run.path)!r})\n"
        "run._repr_html_(), run.findings()\n"
        "try: run.plot.sizes()\n"
        "except tailrace.TailraceError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "pip install 'tailrace[notebook]'" in done.stdout and "pyplot" not in done.stdout
