"""Datasets as parts of files: tasks that write and read different ones of one file don't depend on each other."""

import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

import networkx as nx
import pytest

import tailrace
from support.commands import TracedCommand
from tailrace.analyzer.model import dataflow, datasets, graphs
from tailrace.errors import QueryError

h5py = pytest.importorskip("h5py")

Graph = nx.MultiDiGraph


@pytest.fixture
def tasks(run_traced: TracedCommand) -> Any:
    """Runs Python sources as tasks, one after the other, in one run; each has `file(mode)` of one HDF5 file."""

    def run(*sources: tuple[str, str]) -> tailrace.Run:
        for name, source in sources:
            text = "import h5py, numpy\ndef file(mode): return h5py.File('shared.h5', mode)\n" + dedent(source)
            run_traced(sys.executable, "-c", text, tags=[f"stage={name}", f"task={name}-0"])
        return tailrace.open(run_traced.run)

    return run


def dependencies(graph: Graph) -> set[tuple[str, str, str]]:
    """(producer, consumer, dataset or path) over one file or dataset in between."""
    found = set()
    for node, data in graph.nodes(data=True):
        if data["kind"] not in ("file", "dataset") or not data["path"].endswith("shared.h5"):
            continue
        writers = [source for source, _, key in graph.in_edges(node, keys=True) if key == "write"]
        readers = [target for _, target, key in graph.out_edges(node, keys=True) if key == "read"]
        label = data.get("dataset", "shared.h5")
        found |= {(graph.nodes[w]["label"], graph.nodes[r]["label"], label) for w in writers for r in readers if w != r}
    return found


MAKE = "with file('w') as f: f.create_dataset('a', data=numpy.zeros(1000)); f['b'] = numpy.ones(500)"


def test_different_datasets_of_a_file_are_no_dependency(tasks: Any) -> None:
    run = tasks(
        ("make", MAKE),
        ("write", "with file('r+') as f: f['a'][:] = 7"),
        ("read", "with file('r') as f: assert f['b'][:].sum() == 500"),
        ("both", "with file('r') as f: assert f['a'][0] + f['b'][0] == 8"),
    )
    by_files = dependencies(run.dataflow(files="all"))
    assert ("write", "read", "shared.h5") in by_files
    graph = run.dataflow(datasets=True)
    assert dependencies(graph) == {
        ("make", "read", "/b"),
        ("make", "both", "/b"),
        ("write", "both", "/a"),
    }
    sizes = {(d["dataset"], d["version"]): d["bytes"] for _, d in graph.nodes(data=True) if d["kind"] == "dataset"}
    assert sizes == {("/a", 1): 8000, ("/b", 1): 4000, ("/a", 2): 8000}
    reads = {
        (d["bytes"], d["calls"]) for *_, key, d in graph.edges(keys=True, data=True) if key == "read" and "unsized" in d
    }
    assert reads == {(4000, 1), (8, 1)}
    for node, data in graph.nodes(data=True):
        if data["kind"] == "dataset":
            ((_, file),) = [edge[:2] for edge in graph.out_edges(node, keys=True) if edge[2] == "part"]
            assert (graph.nodes[file]["kind"], graph.nodes[file]["path"]) == ("file", data["path"])
    assert not nx.has_path(graph, "stage:/write", "stage:/read")


def test_content_from_before_the_run_is_the_first_version(tasks: Any, tmp_path: Path) -> None:
    with h5py.File(tmp_path / "shared.h5", "w") as file:
        file["given"] = [1, 2, 3]
        file["other"] = [4.0]
    run = tasks(
        ("write", "with file('r+') as f: f['other'][0] = 5; f['new'] = [1]"),
        ("read", "with file('r') as f: print(f['given'][:], f['other'][:])"),
    )
    graph = run.dataflow("task", datasets=True)
    assert dependencies(graph) == {("write-0", "read-0", "/other")}
    external = {d["dataset"]: d["external"] for _, d in graph.nodes(data=True) if d["kind"] == "dataset"}
    assert external == {"/given": True, "/other": False, "/new": False}


def test_rounds_are_versions(tasks: Any) -> None:
    step = "with file('r+') as f: f['a'][:] = f['a'][:] + 1"
    run = tasks(("make", MAKE), ("one", step), ("two", step))
    graph = run.dataflow(datasets=True)
    assert dependencies(graph) == {("make", "one", "/a"), ("one", "two", "/a")}
    graph.remove_edges_from([edge for *edge, data in graph.edges(keys=True, data=True) if data.get("own")])
    assert nx.is_directed_acyclic_graph(graph)
    assert graph.graph["cycles"] == 0


def test_a_reader_of_the_file_without_dataset_names_keeps_its_edge(tasks: Any) -> None:
    copy = "import shutil; shutil.copyfile('shared.h5', 'copy.h5')"
    by_reference = "with file('r+') as f: f.create_dataset('r', data=f['a'].ref, dtype=h5py.ref_dtype)"
    deref = "with file('r') as f: print(f[f['r'][()]][0])"
    run = tasks(("make", MAKE), ("copy", copy), ("refer", by_reference), ("follow", deref))
    graph = run.dataflow(datasets=True)
    assert ("refer", "follow", "/r") in dependencies(graph)
    # The copy took all of it; which dataset the reference led to is not known, so that could have been any.
    for reader in ("copy", "follow"):
        assert nx.has_path(graph, "stage:/make", f"stage:/{reader}")
        assert any(graph.nodes[file]["kind"] == "file" for file in graph.predecessors(f"stage:/{reader}"))


def test_a_file_in_memory_has_no_datasets(tasks: Any) -> None:
    memory = "f = h5py.File('memory.h5', 'w', driver='core', backing_store=False); f['a'] = [1]; print(f['a'][:])"
    run = tasks(("make", MAKE), ("memory", memory))
    graph = run.dataflow(datasets=True)
    assert not [
        node for node in graph if "memory.h5" in node or graph.nodes[node].get("path", "").endswith("memory.h5")
    ]


def test_invalid_combinations_of_options(tasks: Any) -> None:
    run = tasks(("make", MAKE))
    with pytest.raises(QueryError, match="parts of file nodes"):
        run.dataflow(files="none", datasets=True)
    with pytest.raises(QueryError, match="has no events"):
        graphs.graph(dataflow.model(run), files="all", with_datasets=True)


def test_the_table_and_the_command(tasks: Any, cli: Any, tmp_path: Path) -> None:
    run = tasks(("make", MAKE), ("read", "with file('r') as f: print(f['a'][10:20])"))
    m = dataflow.model(run)
    table = datasets.accesses(run, m)
    rows = {(m.who["stage"].iat[r.who], r.object, r.dir): (r.bytes, r.calls) for r in table.itertuples()}
    assert rows == {
        ("make", "/a", 1): (8000, 1),
        ("make", "/b", 1): (4000, 1),
        ("read", "/a", 0): (80, 1),
    }
    out = tmp_path / "graph.json"
    assert cli("graph", tmp_path / "run", "--datasets", "-o", out).returncode == 0
    assert '"dataset"' in out.read_text()
    for form in ("dot", "graphml"):
        done = cli("graph", tmp_path / "run", "--datasets", "--stage", "read", "--format", form)
        assert done.returncode == 0 and "/a" in done.stdout, done.stderr
    totals = cli(
        "query", tmp_path / "run", "--where", "cat=HDF5", "--by", "object", "--agg", "sum:size", "--format", "csv"
    )
    assert "/a,8080" in totals.stdout
