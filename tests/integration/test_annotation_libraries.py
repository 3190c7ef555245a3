"""Ranges of NVTX and ITT as regions, by the real libraries' interfaces for tools (TAILRACE_ANNOTATIONS)."""

import json
import os
import subprocess
import sys
import textwrap
from collections import Counter
from pathlib import Path

import pytest

from support.commands import TracedCommand
from support.run_files import Line, Trace
from tailrace.tags import decode

VARIABLES = ("NVTX_INJECTION64_PATH", "INTEL_LIBITTNOTIFY64")

NVTX = """
    import os, sys, threading
    import nvtx

    def touch(name):
        open(f"{sys.argv[1]}/{name}", "w").close()

    nvtx.push_range("outer")
    with nvtx.annotate("step", domain="solver", category="io", payload=-3):
        touch("in step")
    touch("in outer")
    nvtx.pop_range()
    nvtx.pop_range()
    handed = nvtx.start_range("handed", domain="solver")
    touch("in none")
    thread = threading.Thread(target=nvtx.end_range, args=(handed,))
    thread.start()
    thread.join()
    nvtx.push_range("crossing", domain="a")
    nvtx.push_range("other", domain="b")
    nvtx.pop_range(domain="a")
    touch("in other")
    nvtx.pop_range(domain="b")
    nvtx.mark("now", domain="solver")
    child = os.fork()
    if child == 0:
        with nvtx.annotate("forked"):
            touch("in forked")
        os._exit(0)
    os.waitpid(child, 0)
    touch("last")
"""

ITT = """
    import sys
    import ittapi

    def touch(name):
        open(f"{sys.argv[1]}/{name}", "w").close()

    with ittapi.task("outer", domain="solver"):
        with ittapi.task("step", domain="solver"):
            touch("in step")
        touch("in outer")
    event = ittapi.event("event")
    event.begin()
    touch("in event")
    event.end()
    touch("last")
"""


def traced(library: str, code: str, run_traced: TracedCommand, **environment: str) -> tuple[list[Line], dict[str, str]]:
    """The events of the category APP, and the region of each file that was opened."""
    files, program = run_traced.work / "files", run_traced.work / "program.py"
    files.mkdir()
    program.write_text(textwrap.dedent(code))
    environment = {"TAILRACE_ANNOTATIONS": library, **environment}
    run_traced(sys.executable, program, files, env={**os.environ, **environment})
    trace = Trace(run_traced.run)
    paths = {file.name: trace.of(file, {"open", "openat"})[0]["args"].get("region", "") for file in files.iterdir()}
    return [e for e in trace.events if e["cat"] == "APP"], paths


def ended(own: list[Line]) -> dict[tuple[str, str], int]:
    """How many regions ended, by path and category."""
    lines = [e["args"] for e in own if not e["args"].keys() & {"kind", "open"}]
    return dict(Counter((a["region"], a.get("category", "")) for a in lines))


def test_nvtx_ranges_are_regions(run_traced: TracedCommand) -> None:
    pytest.importorskip("nvtx", reason="no nvtx (pip install nvtx)")
    own, paths = traced("nvtx", NVTX, run_traced)
    assert ended(own) == {
        ("outer", ""): 1, ("outer/step", "io"): 1, ("handed", "solver"): 1, ("crossing", "a"): 1,
        ("crossing/other", "b"): 1, ("forked", ""): 1,
    }  # fmt: skip
    assert paths == {
        "in step": "outer/step", "in outer": "outer", "in none": "", "in other": "crossing/other",
        "in forked": "forked", "last": "",
    }  # fmt: skip
    step = next(e["args"] for e in own if e["name"] == "step")
    assert decode(step["keys"]) == {"payload": "-3"}
    now = [(e["name"], e["args"].get("category")) for e in own if e["args"].get("kind") == "instant"]
    assert now == [("now", "solver")]


def test_itt_tasks_are_regions(run_traced: TracedCommand) -> None:
    pytest.importorskip("ittapi", reason="no ittapi (pip install ittapi)")
    own, paths = traced("nvtx,itt", ITT, run_traced)
    assert ended(own) == {("outer", "solver"): 1, ("outer/step", "solver"): 1, ("event", ""): 1}
    assert paths == {"in step": "outer/step", "in outer": "outer", "in event": "event", "last": ""}


PRINTS = """
    import json, os, sys
    names = ("NVTX_INJECTION64_PATH", "INTEL_LIBITTNOTIFY64")
    open(f"{sys.argv[1]}/variables", "w").write(json.dumps([os.environ.get(name) for name in names]))
"""


def test_without_the_setting_no_variable_is_set(run_traced: TracedCommand) -> None:
    traced("none", PRINTS, run_traced)
    assert (run_traced.work / "files/variables").read_text() == "[null, null]"


def test_a_variable_of_the_user_is_kept(run_traced: TracedCommand) -> None:
    traced("all", PRINTS, run_traced, NVTX_INJECTION64_PATH="/mine")
    mine, other = json.loads((run_traced.work / "files/variables").read_text())
    assert mine == "/mine"
    assert Path(other).is_file()


def test_an_unknown_library_is_named(run_traced: TracedCommand) -> None:
    done = run_traced("true", env={**os.environ, "TAILRACE_ANNOTATIONS": "nvtx,other"}, check=False)
    assert done.returncode != 0
    assert "nvtx,itt" in done.stderr


@pytest.mark.parametrize(("library", "code"), [("nvtx", NVTX), ("ittapi", ITT)])
def test_untraced_a_left_over_variable_does_nothing(
    library: str, code: str, tmp_path: Path, run_traced: TracedCommand
) -> None:
    pytest.importorskip(library, reason=f"no {library} (pip install {library})")
    traced("all", PRINTS, run_traced)
    paths = json.loads((run_traced.work / "files/variables").read_text())
    environment = {**os.environ, **dict(zip(VARIABLES, paths, strict=True))}
    command = [sys.executable, "-c", textwrap.dedent(code), str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "last").exists()
