"""`tailrace export --hash`: a version has the checksum of its own bytes, or none. Each format has command lines."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from support.commands import TAILRACE, run_cli

PROGRAM = """
export TAILRACE_TAGS=workflow=w,stage=make,task=first
sh -c 'echo kept > kept; echo one > again; echo gone > gone; echo changed > changed; echo other > other'
export TAILRACE_TAGS=workflow=w,stage=use,task=second
sh -c 'cat kept again gone changed other > /dev/null; echo two > again; rm gone'
"""
KEPT = {"kept": b"kept\n", "again": b"two\n"}
"""The files whose last version is still there, with what is in it."""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of five files: one is written again by a second task, one removed, one changed and one replaced after the run."""
    place: Path = tmp_path_factory.mktemp("hashed")
    subprocess.run([*TAILRACE, "run", "-q", "-o", "run", "--", "sh", "-c", PROGRAM], cwd=place, check=True, timeout=120)
    (place / "changed").write_text("another\n")
    os.utime(place / "changed", (2e9, 2e9))
    (place / "new").write_text("other\n")
    (place / "new").replace(place / "other")
    return place / "run"


def exported(run: Path, form: str, *options: str) -> tuple[list[Any], str]:
    """The documents of an export, and what the command said."""
    done = run_cli("export", run, "--to", form, *options)
    assert done.returncode == 0, done.stderr
    documents = done.stdout.splitlines() if form == "openlineage" else [done.stdout]
    return [json.loads(one) for one in documents], done.stderr


def checksums(form: str, documents: list[Any]) -> set[tuple[str, str, str]]:
    """(name, version, checksum) of each version that has one."""
    if form == "prov":
        rows = documents[0]["entity"].values()
        return {
            (row["prov:label"], str(row["tailrace:version"]), row["tailrace:sha256"])
            for row in rows
            if "tailrace:sha256" in row
        }
    if form == "rocrate":
        files = [row for row in documents[0]["@graph"] if row["@type"] == "File" and "sha256" in row]
        return {(row["name"], row.get("version", ""), row["sha256"]) for row in files}
    if form == "wfformat":
        files = [row for row in documents[0]["workflow"]["specification"]["files"] if "tailrace" in row]
        words = [(row["id"].rsplit("/", 1)[-1], row["tailrace"]["sha256"]) for row in files]
        return {(*f"{name}#".split("#")[:2], digest) for name, digest in words}
    if form == "json":
        nodes = [node for node in documents[0]["nodes"] if "sha256" in node]
        return {(Path(node["path"]).name, str(node["version"]), node["sha256"]) for node in nodes}
    sets = [row for event in documents for row in (*event["inputs"], *event["outputs"])]
    return {
        (row["name"].rsplit("/", 1)[-1], row["facets"]["version"]["datasetVersion"], row["facets"][key]["sha256"])
        for row in sets
        if (key := "tailrace_checksum") in row["facets"]
    }


@pytest.mark.parametrize("form", ["wfformat", "rocrate", "prov", "openlineage", "json"])
def test_only_versions_that_are_still_there_have_a_checksum(run: Path, form: str) -> None:
    documents, said = exported(run, form, "--hash")
    found = checksums(form, documents)
    assert {(name, digest) for name, _, digest in found} == {
        (name, hashlib.sha256(text).hexdigest()) for name, text in KEPT.items()
    }
    assert {version for name, version, _ in found if name == "again"} == {"2"}
    assert "without a checksum: 4 versions of files (1 written again later in the run," in said
    assert "1 changed since the run, 1 no longer there, 1 replaced by other files since)" in " ".join(said.split())
    plain, quiet = exported(run, form)
    assert not checksums(form, plain) and "checksum" not in quiet


def test_a_crate_defines_its_term_for_checksums(run: Path) -> None:
    (crate,), _ = exported(run, "rocrate", "--hash")
    assert crate["@context"][1] == {"sha256": "https://w3id.org/ro/terms/workflow-run#sha256"}
    (plain,), _ = exported(run, "rocrate")
    assert plain["@context"] == "https://w3id.org/ro/crate/1.1/context"


@pytest.mark.parametrize("form", ["graphml", "dot"])
def test_nodes_of_a_graph_have_the_checksums(run: Path, form: str) -> None:
    written = run_cli("export", run, "--to", form, "--hash").stdout
    assert [written.count(hashlib.sha256(text).hexdigest()) for text in KEPT.values()] == [1, 1]


def test_a_format_without_checksums_says_which_have_them(run: Path) -> None:
    done = run_cli("export", run, "--to", "perfetto", "--hash")
    assert done.returncode == 1
    assert "the format perfetto has no checksums; those that have are dot, graphml, json," in " ".join(
        done.stderr.split()
    )


def test_every_format_has_the_command_lines(run: Path) -> None:
    for form in ("wfformat", "rocrate", "prov", "openlineage", "graphml", "dot", "json", "perfetto"):
        done = run_cli("export", run, "--to", form)
        assert done.returncode == 0
        assert "echo kept > kept" in done.stdout.replace("&gt;", ">"), form
