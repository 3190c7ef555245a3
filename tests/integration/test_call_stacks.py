"""Call stacks of I/O calls (TAILRACE_STACKS), of compiled programs and Python: in traces, queries and findings."""

import gzip
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import tailrace
from support.commands import TracedCommand, run_cli
from support.run_files import Line, Trace
from tailrace.analyzer.store import callers

PROGRAMS = Path(__file__).parents[1] / "programs"
SCRIPT = """\
import os, sys, threading, json

def save(path, number):
    with open(path, "wb", buffering=0) as file:
        for _ in range(number):
            file.write(b"0123456789")  # line: write

class Task:
    def run(self, path):
        save(path, 40)
        fd = os.open(path, os.O_RDONLY)
        while (
            os.read(fd, 5)  # line: read
        ):
            pass

def \u00e9crit(path):
    os.system("true")
    with open(path, "w", buffering=1) as file:
        json.dump({"a": list(range(3))}, file)  # line: library

thread = threading.Thread(target=Task().run, args=sys.argv[1:2])
thread.start()
thread.join()
Task().run(sys.argv[1])
\u00e9crit(sys.argv[2])
"""
PYTHONS = sorted(
    {
        str(python.resolve())
        for minor in (10, 11, 12, 13)
        for python in (Path.home() / ".pyenv" / "versions").glob(f"3.{minor}.*/bin/python3.{minor}")
    }
    | {sys.executable}
)


def line_of(text: str, mark: str) -> int:
    return next(i for i, line in enumerate(text.splitlines(), 1) if f"line: {mark}" in line)


def raw_lines(run: Path) -> list[Line]:
    return [
        json.loads(line)
        for file in sorted((run / "trace").glob("*.pfw.gz"))
        for line in gzip.open(file, "rt", encoding="utf-8")
    ]


def with_stacks(chosen: str, **more: str) -> dict[str, str]:
    return {**os.environ, "TAILRACE_STACKS": chosen, **more}


def calls(trace: Trace, path: Path, name: str) -> list[Line]:
    return [event for event in trace.of(path) if event["name"] == name]


def callers_of(run: Path, **where: object) -> "Counter[str | None]":
    """Caller -> calls."""
    found = tailrace.open(run).totals(["caller"], ["count"], **where)
    return Counter(dict(zip([c or None for c in found["caller"].astype(object)], found["count"], strict=True)))


@pytest.fixture(
    params=[
        ("-O2", "-g", "-fomit-frame-pointer"),
        ("-O2", "-g", "-fno-omit-frame-pointer", "-fno-asynchronous-unwind-tables"),
        ("-O0", "-g"),
        ("-O2", "-g", "-no-pie", "-flto"),
    ],
    ids=" ".join,
)
def program(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    made = tmp_path / "called"
    subprocess.run(["g++", *request.param, "-o", made, PROGRAMS / "called.cc", "-lpthread"], check=True)
    return made


def test_callers_in_a_compiled_program_are_file_and_line(program: Path, run_traced: TracedCommand) -> None:
    data = run_traced.work / "data"
    run_traced(program, data, env=with_stacks("1"))
    source = (PROGRAMS / "called.cc").read_text()
    wrote = callers_of(run_traced.run, path=str(data), dir="w")
    (place,) = wrote
    assert wrote[place] == 100
    assert place is not None
    assert place.startswith(f"{PROGRAMS / 'called.cc'}:{line_of(source, 'write')} (")
    read = callers_of(run_traced.run, path=str(data), dir="r")
    assert list(read) == [f"{PROGRAMS / 'called.cc'}:{line_of(source, 'read')} (main)"]


def test_stacks_reach_from_the_call_to_main(program: Path, run_traced: TracedCommand) -> None:
    data = run_traced.work / "data"
    run_traced(program, data, env=with_stacks("1"))
    stacks = tailrace.open(run_traced.run).read(["stack"], path=str(data), name="write")["stack"]
    frames = {frame for stack in stacks for frame in stack.split("\n") if frame.startswith(str(program))}
    symbols = subprocess.run(
        ["addr2line", "-Cfe", program, *(frame.partition("+")[2].split()[0] for frame in frames)],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    assert "save<double>" in symbols
    assert "main" in symbols.splitlines()


def test_a_stack_is_defined_once_a_block_and_calls_refer_to_it(run_traced: TracedCommand, tmp_path: Path) -> None:
    made = tmp_path / "called"
    subprocess.run(["g++", "-O1", "-o", made, PROGRAMS / "called.cc", "-lpthread"], check=True)
    run_traced(made, run_traced.work / "data", env=with_stacks("1"))
    lines = raw_lines(run_traced.run)
    defined = Counter(line["args"]["value"] for line in lines if line["name"] == "ST")
    used = {line["args"]["stack"] for line in lines if "stack" in line["args"]}
    assert used
    assert used == set(defined)
    assert max(defined.values()) <= 2  # a block a thread


@pytest.mark.parametrize("detail", ["full", "totals"])
def test_one_of_n_calls_of_a_thread_has_a_stack(detail: str, run_traced: TracedCommand, tmp_path: Path) -> None:
    made = tmp_path / "called"
    subprocess.run(["g++", "-O1", "-o", made, PROGRAMS / "called.cc", "-lpthread"], check=True)
    data = run_traced.work / "data"
    run_traced(made, data, env=with_stacks("10"), options=("-q", "--detail", detail))
    trace = Trace(run_traced.run)
    written = [e for e in calls(trace, data, "write") if "stack" in e["args"]]
    # Of the two threads with 50 writes each; some of the first and the last ten of each are other calls.
    assert 8 <= len(written) <= 12
    run = tailrace.open(run_traced.run)
    assert int(run.totals([], ["sum:size"], path=str(data), dir="w").iat[0, 0]) == 800


WAITS = """\
import os, time
end, begin = os.pipe()
reader = os.getpid()
if os.fork() == 0:
    # It sleeps nowhere but in its read.
    while open(f"/proc/{reader}/stat").read().rpartition(")")[2].split()[0] != "S":
        pass
    time.sleep(0.3)
    os.write(begin, b"x")
    os._exit(0)
os.read(end, 1)  # line: read
"""


def test_calls_that_took_long_have_a_stack(run_traced: TracedCommand) -> None:
    made = run_traced.work / "program.py"
    made.write_text(WAITS)
    run_traced(sys.executable, made, env=with_stacks("100ms"))
    found = tailrace.open(run_traced.run).read(["name", "dur", "caller", "path"])
    of_pipe = found[(found["name"] == "read") & found["path"].str.startswith("pipe:")]
    assert list(of_pipe["caller"]) == [f"{made}:{line_of(WAITS, 'read')} (<module>)"]
    # On a busy machine any call may take long.
    assert found[found["dur"] < 100_000_000]["caller"].isna().all()


def test_small_stacks_and_handlers_are_left_whole(run_traced: TracedCommand, tmp_path: Path) -> None:
    made = tmp_path / "called"
    subprocess.run(["gcc", "-O1", "-g", "-o", made, PROGRAMS / "called.c", "-lpthread"], check=True)
    data = run_traced.work / "data"
    run_traced(made, data, env=with_stacks("1"))
    source = (PROGRAMS / "called.c").read_text()
    assert data.read_bytes() == b"handler" * 20 + b"thread" * 20
    assert callers_of(run_traced.run, path=str(data), dir="w") == {
        f"{PROGRAMS / 'called.c'}:{line_of(source, 'handler')} (handle)": 20,
        f"{PROGRAMS / 'called.c'}:{line_of(source, 'thread')} (work)": 20,
    }


def test_frame_pointers_lead_on_where_there_is_no_table(run_traced: TracedCommand, tmp_path: Path) -> None:
    source, made, data = tmp_path / "program.c", tmp_path / "program", run_traced.work / "data"
    source.write_text(
        "#include <fcntl.h>\n#include <unistd.h>\n"
        '__attribute__((noinline)) static int save(int fd) { return write(fd, "row", 3) != 3; }\n'
        "__attribute__((noinline)) static int solve(int fd) { return save(fd) + 2; }\n"
        "int main(int n, char **v) { return solve(open(v[n - 1], O_CREAT | O_WRONLY, 0600)) - 2; }\n"
    )
    options = ("-O1", "-fno-asynchronous-unwind-tables", "-fno-omit-frame-pointer")
    subprocess.run(["gcc", *options, "-o", made, source], check=True)
    run_traced(made, data, env=with_stacks("1"))
    (stack,) = tailrace.open(run_traced.run).read(["stack"], path=str(data), name="write")["stack"]
    offsets = [frame.partition("+")[2].split()[0] for frame in stack.split("\n") if frame.startswith(str(made))]
    symbols = subprocess.run(["addr2line", "-fe", made, *offsets], check=True, capture_output=True, text=True).stdout
    assert symbols.splitlines()[:6:2] == ["save", "solve", "main"]


def test_a_stripped_program_has_its_module_and_offset(run_traced: TracedCommand, tmp_path: Path) -> None:
    made = tmp_path / "called"
    subprocess.run(["g++", "-O1", "-s", "-o", made, PROGRAMS / "called.cc", "-lpthread"], check=True)
    data = run_traced.work / "data"
    run_traced(made, data, env=with_stacks("1"))
    (place,) = callers_of(run_traced.run, path=str(data), dir="r")
    assert place is not None
    assert place.startswith(f"{made}+0x")


def forget_callers() -> None:
    for known in (*callers._known, callers._places):
        known.clear()


@pytest.mark.parametrize("build_id", ["sha1", "none"])
def test_a_program_that_was_built_anew_gets_no_lines(build_id: str, run_traced: TracedCommand, tmp_path: Path) -> None:
    made, data = tmp_path / "called", run_traced.work / "data"
    options = ["g++", "-O1", "-g", f"-Wl,--build-id={build_id}", "-o", made, "-lpthread"]
    subprocess.run([*options, PROGRAMS / "called.cc"], check=True)
    run_traced(made, data, env=with_stacks("1"))
    (place,) = callers_of(run_traced.run, path=str(data), dir="r")
    assert place is not None
    assert "called.cc:" in place
    made.unlink()
    other = tmp_path / "other.cc"
    other.write_text("// Another one.\n" + (PROGRAMS / "called.cc").read_text())
    subprocess.run([*options, other], check=True)
    forget_callers()
    (place,) = callers_of(run_traced.run, path=str(data), dir="r")
    assert place is not None
    assert place.startswith(f"{made}+0x")


@pytest.mark.parametrize("python", PYTHONS, ids=[Path(python).parts[-3] for python in PYTHONS])
def test_callers_in_python_are_file_line_and_function(python: str, run_traced: TracedCommand) -> None:
    script, data, text = (run_traced.work / name for name in ("skript-\u00e4.py", "data", "text"))
    script.write_text(SCRIPT)
    run_traced(python, script, data, text, env=with_stacks("1"))
    asked = [python, "-c", "import sys; print(sys.version_info >= (3, 11))"]
    qualified = subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip() == "True"
    lines = {mark: line_of(SCRIPT, mark) for mark in ("write", "read", "library")}
    assert callers_of(run_traced.run, path=str(data), name="write") == {f"{script}:{lines['write']} (save)": 80}
    method = "Task.run" if qualified else "run"
    assert set(callers_of(run_traced.run, path=str(data), name="read")) == {f"{script}:{lines['read']} ({method})"}
    # The innermost functions are the standard library's.
    assert set(callers_of(run_traced.run, path=str(text), name="write")) <= {
        f"{script}:{lines['library']} (\u00e9crit)",
        f"{script}:{lines['library'] - 1} (\u00e9crit)",
    }


def test_small_calls_name_the_line_that_makes_them(run_traced: TracedCommand) -> None:
    script = run_traced.work / "program.py"
    script.write_text(
        "import os, sys\n"
        "fd = os.open(sys.argv[1], os.O_RDONLY)\n"
        "def rows():\n"
        "    while os.read(fd, 64):  # line: read\n"
        "        pass\n"
        "rows()\n"
    )
    data = run_traced.work / "data"
    data.write_bytes(bytes(4 << 20))
    run_traced(sys.executable, script, data, env=with_stacks("100"))
    found = tailrace.open(run_traced.run).findings()
    (small,) = [finding for finding in found if finding.kind == "small calls"]
    assert small.title.endswith(f"; most of the time at {script}:4 (rows)")


# So long that what a busy machine adds to the start of Python, or to a single call, is little beside it.
PLANTED = """
import os, sys
def flush(name):
    fd = os.open(name, os.O_RDWR | os.O_CREAT)
    for number in range(200):
        os.pwrite(fd, b"x" * 4096, 4096 * number)
        os.fsync(fd)  # line: many flushes
def look(name):
    for number in range(60000):
        os.stat(name)  # line: metadata load
def seek(name):
    fd = os.open(name, os.O_RDWR)
    for number in range(60000):
        os.lseek(fd, 0, os.SEEK_CUR)  # line: useless seeks
        if number % 10 == 0:
            os.read(fd, 8)
{"many flushes": flush, "metadata load": look, "useless seeks": seek}[sys.argv[1]](sys.argv[2])
"""


@pytest.mark.parametrize("kind", ["many flushes", "metadata load", "useless seeks"])
def test_findings_about_calls_name_the_line_that_makes_them(run_traced: TracedCommand, kind: str) -> None:
    script, data = run_traced.work / "program.py", run_traced.work / "data"
    script.write_text(PLANTED)
    data.write_bytes(bytes(1 << 20))
    run_traced(sys.executable, "-S", "-E", script, kind, data, env=with_stacks("10"))
    (found,) = [finding for finding in tailrace.open(run_traced.run).findings() if finding.kind == kind]
    assert f"; most of the time at {script}:{line_of(PLANTED, kind)} (" in found.title, found.title


def test_queries_group_and_choose_by_caller(run_traced: TracedCommand) -> None:
    script = run_traced.work / "program.py"
    script.write_text(SCRIPT)
    data = run_traced.work / "data"
    run_traced(sys.executable, script, data, run_traced.work / "text", env=with_stacks("1"))
    place = f"{script}:{line_of(SCRIPT, 'write')} (save)"
    grouped = run_cli(
        "query", run_traced.run, "--where", f"path={data}", "--by", "caller", "--agg", "sum:size", "--format", "csv"
    )
    assert f"{place},800" in grouped.stdout, grouped.stderr
    listed = run_cli(
        "query", run_traced.run, "--where", f"caller={place}", "--columns", "name,size,caller", "--format", "csv"
    )
    assert listed.stdout.splitlines()[1:] == [f"write,10,{place}"] * 80, listed.stderr
    several = run_cli("query", run_traced.run, "--where", f"path={data}", "--agg", "nunique:caller", "--format", "csv")
    count = len({str(c) for c in tailrace.open(run_traced.run).read(["caller"], path=str(data))["caller"].dropna()})
    assert several.stdout.split() == ["nunique_caller", str(count)]


def test_compaction_keeps_stacks(run_traced: TracedCommand) -> None:
    script = run_traced.work / "program.py"
    script.write_text(SCRIPT)
    data = run_traced.work / "data"
    run_traced(sys.executable, script, data, run_traced.work / "text", env=with_stacks("1", TAILRACE_BLOCK_AGE="1"))
    before = callers_of(run_traced.run)
    done = run_cli("compact", run_traced.run)
    assert done.returncode == 0, done.stderr
    assert callers_of(run_traced.run) == before
    assert tailrace.open(run_traced.run).stack_blocks()


@pytest.mark.parametrize("chosen", ["off", "1"])
def test_no_stacks_unless_chosen_nor_where_names_are_hashed(chosen: str, run_traced: TracedCommand) -> None:
    script = run_traced.work / "program.py"
    script.write_text(SCRIPT)
    how = {} if chosen == "off" else {"TAILRACE_REDACT": "paths"}
    run_traced(
        sys.executable, script, run_traced.work / "data", run_traced.work / "text", env=with_stacks(chosen, **how)
    )
    trace = "".join(str(line) for line in raw_lines(run_traced.run))
    assert "'stack'" not in trace
    assert "'ST'" not in trace


def test_a_wrong_choice_is_named(run_traced: TracedCommand) -> None:
    done = run_traced("true", env=with_stacks("10ms,20ms"), check=False, options=())
    assert "TAILRACE_STACKS" in done.stderr
    assert "10ms" in done.stderr


def test_without_addr2line_callers_are_offsets(run_traced: TracedCommand, monkeypatch: pytest.MonkeyPatch) -> None:
    with Path(sys.executable).open("rb") as file:
        stack = f"{sys.executable}+0x1000 [{callers._mark(file, False)}]"
    forget_callers()
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert callers.callers([stack], True)[stack] == f"{sys.executable}+0x1000"
