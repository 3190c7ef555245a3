"""TAILRACE_REDACT=paths: no name is in any file of a run, and what is computed of it is what it is without."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import networkx as nx
import pytest

import tailrace
from support.commands import TAILRACE, run_cli
from support.hashed_runs import HASHED, KEY, MARK, has_mark, key_file, traced
from tailrace import hashed_names
from tailrace.errors import UsageError
from tailrace.hashed_names import HashedNames
from tailrace.integrations.environment import library_path

PYTHON = f"""
import mmap, os, socket, subprocess, sys, threading
from multiprocessing import shared_memory
import tailrace
from tailrace import context
open("{MARK}.csv").read()
os.makedirs("{MARK}/deep", exist_ok=True)
with tailrace.region("{MARK}-region", "{MARK}-category", sample="{MARK}/value"):
    open("{MARK}/deep/{MARK}.h5", "w").write("x" * 5000)
    tailrace.instant("{MARK}-instant", sample="{MARK}")
os.rename("{MARK}/deep/{MARK}.h5", "{MARK}/deep/{MARK}2.h5")
os.link("{MARK}/deep/{MARK}2.h5", "{MARK}/{MARK}-link")
os.symlink("{MARK}-link", "{MARK}/{MARK}-soft")
open("{MARK}/{MARK}-soft").read()
for missing in ("{MARK}-none", "/usr/bin/{MARK}", "/usr/lib/../{MARK}", "/proc/self/cwd/{MARK}-none", "/etc/{MARK}"):
    try:
        open(missing)
    except OSError:
        pass
open("/proc/self/cwd/{MARK}.csv").read()
os.stat("/proc/self/cwd/{MARK}.csv")
with open("{MARK}.csv", "r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
    memory[0]
block = shared_memory.SharedMemory(name="{MARK}", create=True, size=4096)
block.close(), block.unlink()
with os.fdopen(os.memfd_create("{MARK}"), "wb") as file:
    file.write(b"x")
gone = open("{MARK}-gone", "w+")
os.unlink("{MARK}-gone")
gone.write("x"), gone.close()
for address in ("{MARK}.sock", chr(0) + "{MARK}"):
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
        server.bind(address), server.listen(), client.connect(address)
        other = server.accept()[0]
        client.sendall(b"x"), other.recv(1), other.close()
datagrams = (socket.AF_UNIX, socket.SOCK_DGRAM)
with socket.socket(*datagrams) as server, socket.socket(*datagrams) as one:
    server.bind("{MARK}.dgram"), one.sendto(b"x", "{MARK}.dgram"), server.recv(1)
os.chdir("{MARK}")
own = {{"{MARK}": "{MARK}", "PATH": os.environ["PATH"]}}
subprocess.run(["cat", "--", "deep/{MARK}2.h5"], env=own, stdout=subprocess.DEVNULL)
with context.scope(stage="{MARK}-stage", task="out/{MARK}.txt", sample="{MARK}"):
    threading.Thread(target=lambda: open("{MARK}-tagged", "w").write("x")).start()
"""

SHELL = f"""
printf 'b\\na\\nc\\n' > {MARK}.csv
sort {MARK}.csv | uniq | tee {MARK}-copy.txt > {MARK}.out
{sys.executable} "$PWD/{MARK} program.py" --{MARK}=1 -p{MARK} {MARK}
TAILRACE_TAGS=task={MARK}/part,sample={MARK} sh -c 'cat {MARK}.out > {MARK}.end; exec ./{MARK}-link {MARK}'
"""


@pytest.fixture
def key(tmp_path: Path) -> Path:
    return key_file(tmp_path / "key")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the workflow runs, whose name is not to be told either."""
    made = tmp_path / f"{MARK} folder"
    made.mkdir()
    (made / f"{MARK} program.py").write_text(PYTHON)
    (made / f"{MARK}-link").symlink_to(shutil.which("true") or "/bin/true")
    return made


def shape(run: Path) -> nx.MultiDiGraph:
    """The dataflow without names: programs of the machine, and directions and bytes of edges."""
    graph = tailrace.open(run).dataflow(level="process", files="all")
    out = nx.MultiDiGraph()
    for node, facts in graph.nodes(data=True):
        kind = facts.get("kind")
        out.add_node(node, what=f"{kind} {facts.get('class') or facts.get('type') or ''}")
    for begin, end, facts in graph.edges(data=True):
        out.add_edge(begin, end, what=(facts.get("kind"), facts.get("bytes")))
    return out


@pytest.mark.parametrize("detail", ["full", "totals"])
def test_a_workflow_leaves_none_of_its_names_in_its_run(tmp_path: Path, folder: Path, detail: str) -> None:
    run = tmp_path / "run"
    done = traced(run, folder, "sh", "-c", SHELL, MARK, TAILRACE_DETAIL=detail, TAILRACE_EXCLUDE="*.sock")
    assert (done.returncode, done.stderr) == (0, "")
    assert run_cli("report", run, "--html", run / "page.html").returncode == 0
    assert has_mark(run) == []
    about = json.loads((run / "run.json").read_text())
    assert re.fullmatch("[0-9a-f]{16}", about["redaction"]["key"])
    assert tailrace.open(run).losses.empty


def test_the_same_workflow_as_it_is_has_all_of_its_names(tmp_path: Path, folder: Path) -> None:
    run = tmp_path / "run"
    traced(run, folder, "sh", "-c", SHELL, MARK, TAILRACE_REDACT="none")
    assert len(has_mark(run)) >= 2, "the workflow proves nothing"


def edges(run: Path, names: HashedNames | None) -> list[tuple[str, str, str, str, int]]:
    """The dataflow between programs and files, with names as the hasher has them, without the tracer's randomness."""
    graph = tailrace.open(run).dataflow(level="task", files="all")

    def name(node: str) -> tuple[str, str]:
        facts = graph.nodes[node]
        text = str(facts.get("path") or facts.get("task") or facts.get("exe") or "")
        text = re.sub(r"[0-9]+", "N", text) if text.startswith(("pipe:", "socket:", "unix:", "anon_inode")) else text
        if names is None or text.startswith(("pipe:", "socket:", "anon_inode")):
            return str(facts.get("class") or facts.get("kind")), text
        return str(facts.get("class") or facts.get("kind")), names.path(text) if "/" in text else names.text(text)

    return sorted((*name(a), *name(b), int(facts.get("bytes") or 0)) for a, b, facts in graph.edges(data=True))


FLOW = f"""
seq 1000 > {MARK}.csv
sort -r {MARK}.csv | tee {MARK}-copy.txt | gzip -n > {MARK}.gz
TAILRACE_TAGS=stage=one,task=out/{MARK} sh -c 'cat {MARK}.gz > {MARK}.end; mv {MARK}.end {MARK}.moved'
mkdir -p {MARK}; cp {MARK}.moved {MARK}/; {sys.executable} {MARK}.py {MARK}/{MARK}.moved
"""


def test_the_dataflow_is_that_of_the_run_with_names(tmp_path: Path, key: Path) -> None:
    folder, runs = tmp_path / f"{MARK} folder", [tmp_path / "plain", tmp_path / "hashed"]
    for run, environment in zip(runs, ({"TAILRACE_REDACT": ""}, {"TAILRACE_REDACT_KEY": str(key)}), strict=True):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        (folder / f"{MARK}.py").write_text(
            "import sys; open(sys.argv[1] + '.2', 'w').write(str(open(sys.argv[1], 'rb').read()))"
        )
        done = traced(run, folder, "sh", "-c", FLOW, **environment)
        assert (done.returncode, done.stderr) == (0, "")
    expected = edges(runs[0], HashedNames(KEY))
    assert edges(runs[1], None) == expected and len(expected) > 10
    assert has_mark(runs[1]) == []


def files_of(run: Path, *words: object) -> "subprocess.CompletedProcess[str]":
    return run_cli("file", run, *words, "--format", "json")


def paths_of(run: Path) -> set[str]:
    found = subprocess.run(["zcat", *(run / "trace").iterdir()], capture_output=True, check=True).stdout
    return {line["args"]["name"] for line in map(json.loads, found.splitlines()) if line["name"] == "FH"}


def test_who_has_the_key_finds_a_file_by_its_name(tmp_path: Path, folder: Path, key: Path) -> None:
    run = tmp_path / "run"
    traced(
        run,
        folder,
        "sh",
        "-c",
        f"echo a > {MARK}.csv; mkdir d; cat {MARK}.csv > d/{MARK}.out",
        TAILRACE_REDACT_KEY=str(key),
    )
    for name in (f"{MARK}.csv", folder / f"{MARK}.csv", f"d/../{MARK}.csv"):
        found = files_of(run, name, "--key", key)
        assert found.returncode == 0, found.stderr
        file = json.loads(found.stdout)["files"][0]
        assert file["written_bytes"] == file["read_bytes"] == 2
        assert MARK not in found.stdout
    hashed = file["path"]
    assert json.loads(files_of(run, hashed).stdout)["files"][0]["path"] == hashed, "without the key by its hash"
    assert files_of(run, f"{MARK}.csv").returncode != 0
    other = key_file(tmp_path / "other", "f" * 32)
    assert "another key" in files_of(run, f"{MARK}.csv", "--key", other).stderr
    for words in (["file", run, hashed], ["export", run, "--to", "prov", "-o", tmp_path / "prov.json"]):
        assert "leave --hash out" in run_cli(*words, "--hash").stderr


def test_runs_with_one_key_have_the_same_names_and_others_not(tmp_path: Path, folder: Path, key: Path) -> None:
    def names(run: str, **environment: str) -> tuple[str, set[str]]:
        traced(tmp_path / run, folder, "sh", "-c", f"echo a > {MARK}.csv", **environment)
        description = json.loads((tmp_path / run / "run.json").read_text())
        return description["redaction"]["key"], {path for path in paths_of(tmp_path / run) if path.endswith(".csv")}

    a, b = names("a", TAILRACE_REDACT_KEY=str(key)), names("b", TAILRACE_REDACT_KEY=str(key))
    assert a == b and a[1]
    c, d = names("c"), names("d")
    assert len({a[0], c[0], d[0]}) == 3 and not c[1] & d[1], "each has a random key"


def test_what_is_kept_stays_readable(tmp_path: Path, folder: Path) -> None:
    run = tmp_path / "run"
    words = (
        "sh",
        "-c",
        f"echo a > {MARK}.csv; echo b > results.csv; TAILRACE_TAGS=stage=align,task={MARK} cat results.csv",
    )
    assert traced(run, folder, *words, TAILRACE_REDACT_KEEP="align:results*").returncode == 0
    assert has_mark(run) == []
    opened = tailrace.open(run)
    assert "align" in set(opened.stages["stage"])
    assert any(path.endswith("/results.csv") for path in paths_of(run))


@pytest.mark.parametrize(
    ("text", "mode", "words"),
    [
        (KEY, 0o640, "can be read or written by others"),
        (KEY[:-1], 0o600, "has no key"),
        ("", 0o600, "has no key"),
        (None, 0o600, "can't be read"),
    ],
)
def test_a_key_file_that_is_none_stops_the_run_before_it_begins(
    tmp_path: Path, folder: Path, text: str | None, mode: int, words: str
) -> None:
    place = tmp_path / "key"
    if text is not None:
        place.write_text(text)
        place.chmod(mode)
    done = traced(tmp_path / "run", folder, "sh", "-c", "echo ran", TAILRACE_REDACT_KEY=str(place))
    assert done.returncode == 2 and words in done.stderr and "ran" not in done.stdout
    assert not (tmp_path / "run").exists()


def test_a_run_is_not_continued_under_another_key_or_without(tmp_path: Path, folder: Path, key: Path) -> None:
    plain, run = tmp_path / "plain", tmp_path / "run"
    traced(run, folder, "true", TAILRACE_REDACT_KEY=str(key))
    traced(plain, folder, "true", TAILRACE_REDACT="")
    before = (run / "run.json").read_text()
    assert "hashed with another key" in traced(run, folder, "true").stderr
    assert "hashed with another key" in traced(run, folder, "true", TAILRACE_REDACT="secrets").stderr
    assert "has its names as they are" in traced(plain, folder, "true").stderr
    assert (run / "run.json").read_text() == before
    again = traced(run, folder, "true", TAILRACE_REDACT_KEY=str(key))
    assert (again.returncode, again.stderr) == (0, "")
    assert has_mark(run) == []


def test_a_command_in_a_run_with_names_does_not_begin_where_its_own_are_to_be_hashed(
    tmp_path: Path, folder: Path
) -> None:
    run = tmp_path / "run"
    inner = f"{' '.join(TAILRACE)} run -q --set redact=paths -- cat {MARK}*.py"
    done = traced(run, folder, "sh", "-c", inner, TAILRACE_REDACT="")
    assert done.returncode == 2 and "has its names as they are" in done.stderr and not done.stdout


def test_a_program_that_is_started_without_a_key_is_not_traced(tmp_path: Path, folder: Path) -> None:
    run = tmp_path / "run"
    traced(run, folder, "true")
    begun = {path: path.read_bytes() for path in (run / "trace").iterdir()}
    environment = {**HASHED, "LD_PRELOAD": str(library_path()), "TAILRACE_RUN": str(run)}
    done = subprocess.run(["cat", folder / f"{MARK} program.py"], env=environment, capture_output=True, check=True)
    assert done.stdout
    assert run_cli("seal", run).returncode == 0
    assert {path: path.read_bytes() for path in (run / "trace").iterdir()} == begun


def test_killed_processes_leave_no_names_in_journals_either(tmp_path: Path, folder: Path) -> None:
    run, journals = tmp_path / "run", tmp_path / "journals"
    journals.mkdir()
    command = [
        *TAILRACE,
        "run",
        "-q",
        "-o",
        str(run),
        "--",
        "sh",
        "-c",
        f"cat {MARK}*.py > {MARK}.out; echo up; sleep 60",
    ]
    environment = {**HASHED, "TAILRACE_JOURNAL_DIR": str(journals)}
    with subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, start_new_session=True
    ) as started:
        assert started.stdout is not None and started.stdout.readline() == b"up\n"
        os.killpg(started.pid, signal.SIGKILL)
    left = list(journals.rglob("*.tj"))
    assert left and not [
        path for path in left if f"/{MARK}".encode() in path.read_bytes().replace(os.fsencode(tmp_path), b"")
    ]
    assert run_cli("seal", run, env=environment).returncode == 0
    assert has_mark(run) == []
    assert tailrace.open(run).info()["written_bytes"] > 0


def test_an_import_of_declarations_is_refused(tmp_path: Path, folder: Path) -> None:
    run = tmp_path / "run"
    traced(run, folder, "true")
    (tmp_path / "flow.json").write_text("{}")
    with pytest.raises(UsageError, match="are hashed"):
        hashed_names.refuse(run, "nothing")
    done = run_cli("declare", run, "--from", tmp_path / "flow.json", "--kind", "wfformat")
    assert done.returncode == 2 and "are hashed" in done.stderr


STATIC = r"""
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
int main(int argc, char **argv) {
  char text[64];
  int from = open(argv[1], O_RDONLY), to = open(argv[2], O_RDWR | O_CREAT, 0600);
  if (argc < 3 || from < 0 || to < 0) return 1;
  long n = read(from, text, sizeof text);
  if (write(to, text, n) != n || open(argv[3], O_RDONLY) >= 0) return 1;
  struct sockaddr_un a = {AF_UNIX, ""};
  snprintf(a.sun_path, sizeof a.sun_path, "%s", argv[3]);
  int s = socket(AF_UNIX, SOCK_DGRAM, 0), c = socket(AF_UNIX, SOCK_DGRAM, 0);
  if (bind(s, (void *)&a, sizeof a) || sendto(c, "x", 1, 0, (void *)&a, sizeof a) != 1) return 1;
  if (recv(s, text, 1, 0) != 1) return 1;
  return rename(argv[2], argv[4]);
}
"""


def compiled(folder: Path, compiler: str, source: str, *options: str) -> Path:
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    # h5cc takes no blank in a path.
    (folder.parent / "source.c").write_text(source)
    words = [compiler, *options, "-w", "-o", "program", "source.c"]
    done = subprocess.run(words, cwd=folder.parent, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"can't be built here: {done.stderr[:300]}")
    return (folder.parent / "program").rename(folder / f"{MARK}-program")


@pytest.mark.parametrize("unseen", ["all", "off"])
def test_a_program_that_is_followed_leaves_no_names(tmp_path: Path, folder: Path, key: Path, unseen: str) -> None:
    run, program = tmp_path / "run", compiled(folder, "cc", STATIC, "-static")
    names = [f"{MARK}.csv", f"{MARK}.new", f"{MARK}.sock", f"{MARK}.end"]
    script = f"echo abc > {names[0]}; TAILRACE_TAGS=task={MARK} ./{program.name} {' '.join(names)} && cat {names[3]}"
    done = traced(run, folder, "sh", "-c", script, TAILRACE_UNSEEN=unseen, TAILRACE_REDACT_KEY=str(key))
    assert done.stdout == "abc\n", done.stderr
    assert run_cli("report", run, "--html", run / "page.html").returncode == 0
    assert has_mark(run) == []
    if unseen == "off":
        return
    file = json.loads(files_of(run, names[3], "--key", key).stdout)["files"][0]
    by = HashedNames(KEY).path(str(program))
    assert file["written_bytes"] == 4 and file["versions"][-1]["writers"][0]["program"] in (by, by.rsplit("/", 1)[-1])


OBJECTS = f"""
#include <hdf5.h>
int main(void) {{
  hsize_t n = 8;
  double x[8] = {{0}};
  hid_t f = H5Fcreate("{MARK}.h5", H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), s = H5Screate_simple(1, &n, NULL);
  hid_t g = H5Gcreate2(f, "{MARK}-group", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  hid_t d = H5Dcreate2(g, "{MARK}-set", H5T_NATIVE_DOUBLE, s, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  hid_t a = H5Acreate2(d, "{MARK}-attribute", H5T_NATIVE_DOUBLE, s, H5P_DEFAULT, H5P_DEFAULT);
  H5Dwrite(d, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, x);
  H5Awrite(a, H5T_NATIVE_DOUBLE, x);
  return H5Aclose(a) | H5Dclose(d) | H5Gclose(g) | H5Fclose(f);
}}
"""


def test_objects_of_hdf5_files_are_hashed_part_by_part(tmp_path: Path, folder: Path, key: Path) -> None:
    run, program = tmp_path / "run", compiled(folder, "h5cc", OBJECTS, "-shlib")
    done = traced(run, folder, program, TAILRACE_REDACT_KEY=str(key))
    assert done.returncode == 0, done.stderr
    assert has_mark(run) == []
    found = subprocess.run(["zcat", *(run / "trace").iterdir()], capture_output=True, check=True).stdout
    objects = {line["args"].get("object") for line in map(json.loads, found.splitlines())}
    assert HashedNames(KEY).text(f"/{MARK}-group/{MARK}-set") in objects


def test_a_link_of_the_machine_to_a_users_directory_keeps_no_names(tmp_path: Path, folder: Path) -> None:
    run, words = tmp_path / "run", ["unshare", "-rm"]
    if subprocess.run([*words, "mount", "-t", "tmpfs", "t", "/usr/share/misc"], check=False).returncode:
        pytest.skip("no user namespaces here")
    place = f"/usr/share/misc/out/{MARK} program.py"
    script = f"""
    mount -t tmpfs t /usr/share/misc && ln -s "$PWD" /usr/share/misc/out || exit 1
    echo > /usr/share/misc/plain; cat /usr/share/misc/plain; stat "{place}"; test -r "{place}"
    {sys.executable} -c 'import os; os.stat("{place}"), os.rename("{place}", "{place}2")'
    """
    done = traced(run, folder, *words, "sh", "-c", script)
    assert done.returncode == 0, done.stderr
    assert has_mark(run) == []
    assert "/usr/share/misc/plain" in paths_of(run)


def test_a_comparison_says_that_keys_differ(tmp_path: Path, folder: Path) -> None:
    for run in ("a", "b"):
        traced(tmp_path / run, folder, "cat", f"{MARK} program.py")
    assert "different keys" in run_cli("compare", tmp_path / "a", tmp_path / "b").stderr
    assert "different keys" not in run_cli("compare", tmp_path / "a", tmp_path / "a").stderr
