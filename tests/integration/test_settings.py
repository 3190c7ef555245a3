"""The settings: their table, the file and the arguments that give them, and what is said of wrong ones."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import tailrace
from support.commands import TAILRACE, run_cli
from tailrace import _native
from tailrace.errors import UsageError
from tailrace.integrations import settings

ROOT = Path(__file__).parents[2]
PROGRAM = """\
import os
for name in ("kept.dat", "left.log"):
    fd = os.open(name, os.O_RDWR | os.O_CREAT)
    for _ in range(50):
        os.write(fd, bytes(64))
    os.close(fd)
"""


def tailrace_here(work, *words, **variables):
    env = {name: value for name, value in os.environ.items() if not name.startswith("TAILRACE_C")}
    chosen = {name: value for name, value in os.environ.items() if name == "TAILRACE_CORE_LIBRARY"}
    return subprocess.run(
        [*TAILRACE, *map(str, words)],
        cwd=work,
        env={**env, **chosen, **variables},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_calls_on_excluded_files_are_totals_and_stay_in_the_sums(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "trace.yaml").write_text("exclude:\n- '*.log'\n- /nowhere/*\nblock_age: 100\n")
    command = ["--", sys.executable, "program.py"]
    done = tailrace_here(tmp_path, "run", "-q", "-o", "file", "--config", "trace.yaml", *command)
    assert done.returncode == 0, done.stderr
    done = tailrace_here(tmp_path, "run", "-q", "-o", "included", *command, TAILRACE_INCLUDE="*.dat:*.log")
    assert done.returncode == 0, done.stderr
    lines = {}
    for name in ("file", "included"):
        run = tailrace.open(tmp_path / name)
        events = run.events().compute()
        writes = events[events["name"] == "write"]
        of = {stem: writes[writes["path"].str.endswith(f"/{stem}")] for stem in ("kept.dat", "left.log")}
        lines[name] = {stem: len(rows) for stem, rows in of.items()}
        for stem, rows in of.items():
            assert (rows["size"].sum(), rows["calls"].sum()) == (3200, 50), (name, stem)
    assert lines == {"file": {"kept.dat": 50, "left.log": 1}, "included": {"kept.dat": 50, "left.log": 50}}


def test_an_argument_wins_over_a_variable_and_that_over_the_file(tmp_path):
    (tmp_path / "trace.yaml").write_text("layers: [hdf5]\nblock-age: 7\nTAILRACE_DETAIL: totals\n")
    words = ["config", "--config", "trace.yaml", "--format", "json"]
    done = tailrace_here(tmp_path, *words, TAILRACE_LAYERS="none")
    assert done.returncode == 0, done.stderr
    found = {row["key"]: (row["value"], row["source"]) for row in json.loads(done.stdout)}
    path = str(tmp_path / "trace.yaml")
    assert found["layers"] == ("none", "environment")
    assert found["block_age"] == ("7", path)
    assert found["detail"] == ("totals", path)
    assert found["redact"] == ("secrets", "default")
    done = tailrace_here(
        tmp_path, "env", "-o", "run", "--config", "trace.yaml", "--set", "layers=mpiio", "--format", "json"
    )
    chosen = json.loads(done.stdout)
    assert {name: chosen.get(name) for name in ("TAILRACE_LAYERS", "TAILRACE_BLOCK_AGE", "TAILRACE_DETAIL")} == {
        "TAILRACE_LAYERS": "mpiio",
        "TAILRACE_BLOCK_AGE": "7",
        "TAILRACE_DETAIL": "totals",
    }


def test_a_run_by_arguments_has_a_directory_by_default(tmp_path):
    done = tailrace_here(tmp_path, "run", "--set", "detail=totals", "--", "true")
    assert done.returncode == 0, done.stderr
    assert len(list((tmp_path / "tailrace-runs").iterdir())) == 1


def test_the_kernels_clock_is_kept_where_it_was_chosen(tmp_path, monkeypatch):
    monkeypatch.setenv("TAILRACE_CLOCK", "monotonic")
    assert dict(_native.trace_settings(str(tmp_path), ""))["TAILRACE_CLOCK"] == "monotonic"
    assert dict(_native.chosen_settings())["TAILRACE_CLOCK"] == "monotonic"


def test_wrong_settings_are_named_with_the_valid_choices(tmp_path):
    done = tailrace_here(tmp_path, "run", "-o", "run", "true", TAILRACE_LAYERS="hdf")
    assert done.returncode == 2
    assert "TAILRACE_LAYERS is 'hdf': give all, none or some of hdf5,mpiio, or unset it" in done.stderr
    assert not (tmp_path / "run").exists()
    done = tailrace_here(tmp_path, "run", "-q", "-o", "run", "true", TAILRACE_DETAI="totals", TAILRACE_FLUX="x")
    assert done.returncode == 0
    assert done.stderr == "tailrace: there is no setting TAILRACE_DETAI: is TAILRACE_DETAIL meant?\n"
    done = tailrace_here(tmp_path, "config", TAILRACE_PROPAGATE="never")
    assert (done.returncode, "TAILRACE_PROPAGATE='never'" in done.stdout) == (2, True)
    assert "give always or environment" in done.stderr


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("detai: full", "did you mean 'detail'?"),
        ("detail: some", "detail is 'some': give full, totals, auto or auto:BYTES"),
        ("process: 1", "there is no setting 'process'"),
        ("- detail", "a mapping is expected"),
        ("detail: [", "is no YAML"),
    ],
)
def test_a_file_with_a_fault_is_refused(tmp_path, text, words):
    path = tmp_path / "trace.yaml"
    path.write_text(text)
    with pytest.raises(UsageError, match=re.escape(words)):
        settings.read_file(path)


def test_every_default_is_a_valid_value():
    for row in settings.table().values():
        assert not row.default or _native.is_setting(row.name, row.default), row.name


def test_lists_and_mappings_of_a_file_become_the_variables_texts(tmp_path):
    path = tmp_path / "trace.yaml"
    path.write_text("untraced: [/bin/a, /bin/b]\nuntraced_variables: {A: 1, B: two}\ntags: {workflow: w, n: 2}\n")
    assert settings.read_file(path) == {
        "TAILRACE_UNTRACED": "/bin/a:/bin/b",
        "TAILRACE_UNTRACED_VARIABLES": "A=1\nB=two",
        "TAILRACE_TAGS": "workflow=w,n=2",
    }


def test_the_documented_table_is_the_cores():
    words = [sys.executable, ROOT / "tools/settings_docs.py", "--check"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_every_setting_is_printed_with_its_meaning():
    printed = run_cli("config").stdout
    for row in settings.table().values():
        assert f"\n{row.name}=" in f"\n{printed}"
