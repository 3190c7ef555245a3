"""Exports of a real run whose files have every kind of name that a file system allows, by the command line."""

import json
import subprocess
import sys

import pytest

import tailrace
from support.commands import TAILRACE
from tailrace.analyzer.exports import FORMATS, export, graphml
from tailrace.analyzer.model import declared_vs_observed
from tailrace.integrations import wfformat

NAMES = (
    b"plain",
    b"a b",
    b"quote\"'`",
    b"two\nlines\r\t",
    b"<script>alert(1)<b>&amp;",
    b"100%25 #1?q",
    b"\xe9t\xe9",  # Latin-1
    b"\xc3\xa9t\xc3\xa9",
    b"\xff\xfe\x80",
    b"-rf",
    b"back\\slash",
    b"\x01\x1b[31m",
    "\u202egnp.\U0001f600".encode(),
)
WRITE = "import os, sys\nfor number, name in enumerate({names!r}): open(name, 'wb').write(b'x' * (number + 1))"
READ = "import os, sys\nfor name in {names!r}: open(name, 'rb').read()"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run in which one program writes all names and another one reads them."""
    folder = tmp_path_factory.mktemp("hostile names")
    for task, program in (("w <1>", WRITE), ("r%2", READ)):
        tags = ["--tag", "workflow=hostile", "--tag", f"stage={task[0]}", "--tag", f"task={task}"]
        command = [*TAILRACE, "run", "-q", "-o", str(folder / "run"), *tags, "--"]
        subprocess.run([*command, sys.executable, "-c", program.format(names=NAMES)], cwd=folder, check=True)
    assert len(list(folder.iterdir())) == len(NAMES) + 1
    return folder / "run"


def shown(name):
    return name.decode("utf-8", "replace")


@pytest.mark.parametrize("form", FORMATS)
def test_each_name_comes_through(run, tmp_path, form):
    out = tmp_path / "out"
    assert export(tailrace.open(run), form, out) == []
    text = out.read_text(encoding="utf-8")
    found = READERS[form](text)
    # What is not UTF-8 reads with U+FFFD (docs/trace-format.md), and such names may look alike.
    as_shown = FORMATTED.get(form, str)
    assert {as_shown(str(run.parent / shown(name))) for name in NAMES} <= set(found)
    assert len(found) >= len(NAMES)


def names_in_wfformat(text):
    instance = json.loads(text)["workflow"]["specification"]
    assert len({file["id"] for file in instance["files"]}) == len(instance["files"])
    return [wfformat._decode(file["id"]) for file in instance["files"]]


def names_in_graphml(text):
    import networkx as nx

    graph = nx.parse_graphml(text.encode(), force_multigraph=True)
    return [data["path"] for _, data in graph.nodes(data=True) if data["kind"] == "file"]


def names_in_dot(text):
    quoted = [line.split('tooltip="', 1)[1].split('", shape', 1)[0] for line in text.splitlines() if "tooltip" in line]
    return [name.replace('\\"', '"').replace("\\\\", "\\") for name in quoted]


READERS = {
    "wfformat": names_in_wfformat,
    "perfetto": lambda text: [
        e["args"]["path"] for e in json.loads(text)["traceEvents"] if "path" in e.get("args", {})
    ],
    "rocrate": lambda text: [e["alternateName"] for e in json.loads(text)["@graph"] if e["@type"] == "File"],
    "prov": lambda text: [e["tailrace:path"] for e in json.loads(text)["entity"].values()],
    "openlineage": lambda text: [d["name"] for line in text.splitlines() for d in json.loads(line)["outputs"]],
    "graphml": names_in_graphml,
    "dot": names_in_dot,
    "json": lambda text: [n["path"] for n in json.loads(text)["nodes"] if n["kind"] == "file"],
}
FORMATTED = {
    "graphml": graphml.text,
    "dot": lambda path: "".join(c if c.isprintable() else "\ufffd" for c in path),
}
"""What a format can't hold, and shows otherwise."""


def test_an_unknown_format_names_the_valid_ones(run, cli):
    done = cli("export", run, "--to", "pdf")
    assert done.returncode == 2
    assert all(name in done.stderr for name in FORMATS)


def test_standard_output_and_folders(run, cli, tmp_path):
    assert json.loads(cli("export", run, "--to", "prov").stdout)["entity"]
    assert cli("export", run, "--to", "rocrate", "-o", f"{tmp_path}/new/crate/").returncode == 0
    (tmp_path / "plain").write_text("")
    made = tmp_path / "new/crate/ro-crate-metadata.json"
    assert made.stat().st_mode == (tmp_path / "plain").stat().st_mode, "as any new file of the user"


def test_declaring_an_invalid_instance(run, cli, tmp_path):
    (tmp_path / "i.json").write_text("[]")
    done = cli("declare", run, "--from", tmp_path / "i.json")
    assert (done.returncode, "nothing that can be imported" in done.stderr) == (2, True)


def test_an_export_declared_for_its_own_run_is_all_observed(run, cli, tmp_path):
    """Ids that are escaped come back as the tags and paths that they stand for."""
    cli("export", run, "--to", "wfformat", "-o", tmp_path / "i.json")
    done = cli("declare", run, "--from", tmp_path / "i.json")
    said = "2 tasks of workflow 'hostile' declared from a WfFormat instance (.json)\n"
    assert (done.returncode, done.stderr) == (0, said)
    rows = declared_vs_observed.compare_declared(tailrace.open(run))
    assert rows[["producer", "consumer", "status"]].to_numpy().tolist() == [["w <1>", "r%2", "observed"]]
    assert rows["files"].item() == len(NAMES)
