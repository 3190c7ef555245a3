"""docs/gallery.ipynb, executed: every cell shows what it is there for, and the file in git has no outputs."""

import os
import sys
from pathlib import Path
from typing import Any

import pytest

nbformat = pytest.importorskip("nbformat", reason="notebooks are read with nbformat: pip install nbformat")
nbclient = pytest.importorskip(
    "nbclient", reason="notebooks are executed with nbclient: pip install nbclient ipykernel"
)
pytest.importorskip("ipykernel", reason="notebooks are executed by ipykernel: pip install ipykernel")
pytest.importorskip("matplotlib", reason="figures need matplotlib: pip install 'tailrace[notebook]'")

NOTEBOOK = Path(__file__).parents[2] / "docs" / "gallery.ipynb"
HTML, SVG, PNG, TEXT = "text/html", "image/svg+xml", "image/png", "text/plain"
SHOWN = {
    "run": (HTML, "Run gallery-run"),
    "stages": (HTML, "shuffle"),
    "findings": (HTML, "tailrace"),
    "flow": (SVG, "shuffle"),
    "flow-tasks": (SVG, "sorted.txt"),
    "flows": (PNG, ""),
    "timeline": (PNG, ""),
    "bandwidth": (PNG, ""),
    "heat": (PNG, ""),
    "sizes": (PNG, ""),
    "totals": (HTML, "rate_size"),
    "bins": (HTML, "sort"),
    "explain": (TEXT, "would be read"),
    "file": (HTML, "shuffled1.txt"),
    "task": (HTML, "sorted.txt"),
    "report": (HTML, "srcdoc="),
}
"""Cell -> the form of its output, and a text in it."""


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The cells by their ids, after all have run."""
    place = tmp_path_factory.mktemp("gallery")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "IPYTHONDIR": str(place)}
    client = nbclient.NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(place)}}
    )
    client.execute(env=env)
    return {cell["id"]: cell for cell in notebook.cells}


def test_the_notebook_in_git_has_no_outputs() -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell["id"] for cell in cells] == ["make", *SHOWN]
    assert all(not cell.outputs and cell.execution_count is None for cell in cells)


@pytest.mark.parametrize("name", list(SHOWN))
def test_a_cell_shows_what_it_is_there_for(executed: dict[str, Any], name: str) -> None:
    form, text = SHOWN[name]
    (output,) = executed[name].outputs
    assert output.output_type == "execute_result"
    assert form in output.data and text in output.data[form], list(output.data)
    plain = output.data[TEXT]
    assert not any(word in plain for word in ("object at 0x", "array(")), plain
