"""The coverage ledger: what the trace has of a process against the kernel's account, for real programs.

Invariants: where every call goes through libc the two agree to the byte, and where one does not the ledger names
how much is missing.
"""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import tailrace
from support import ordinary_user
from support.commands import TAILRACE, TracedCommand
from tailrace.analyzer.store import ledger
from tailrace.integrations import recovery

pytestmark = pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="the kernel keeps no I/O account")

Run = Callable[..., pd.DataFrame]
BECOME = ordinary_user.become()


@pytest.fixture
def traced(tmp_path: Path) -> Run:
    """Runs a command traced in a directory with data, and returns the run's coverage."""
    work, run = tmp_path / "work", tmp_path / "run"
    work.mkdir()
    (work / "text.txt").write_text("".join(f"line {i} of the text\n" for i in range(40_000)))
    (work / "data.bin").write_bytes(bytes(range(256)) * 12_000)

    def do(*command: Any, code: int | None = 0) -> pd.DataFrame:
        prefix = ordinary_user.reach(tmp_path) if BECOME[0] in command else []
        done = TracedCommand(work, run)(*command, prefix=prefix, check=False)
        assert code is None or done.returncode == code, done.stderr
        return tailrace.open(run).coverage

    return do


@pytest.fixture(params=["as we are", pytest.param("as an ordinary user", marks=ordinary_user.MARKER)])
def user(request: pytest.FixtureRequest, traced: Run, tmp_path: Path) -> list[str]:
    """A command that becomes an ordinary user, to whom Linux does not show the accounts of zombies."""
    if request.param == "as we are":
        return []
    (tmp_path / "work").chmod(0o777)
    return BECOME


def programs(rows: pd.DataFrame) -> pd.DataFrame:
    """Without what became the ordinary user, which has no account: it had no right to read it any more."""
    became = rows["cause_key"] == "another"
    assert all(Path(exe).name == "setpriv" for exe in rows.loc[became, "exe"]) and became.sum() <= 1
    assert rows.loc[became, "share"].isna().all()
    remaining: pd.DataFrame = rows[~became]
    return remaining


@pytest.fixture
def ledger_program(traced: Run, program: Callable[[str], Path], tmp_path: Path) -> str:
    """The program where any user can run it."""
    shutil.copy(program("ledger"), tmp_path / "work" / "ledger").chmod(0o755)
    return "./ledger"


def exact(row: Any) -> bool:
    """Both ways, to the byte."""
    return bool(row["kernel_read"] == row["captured_read"] and row["kernel_written"] == row["captured_written"])


def show(rows: pd.DataFrame) -> str:
    return "\n" + rows.drop(columns=["host", "start"]).to_string()


SCRIPTS = {
    "dd": "dd if=data.bin of=out bs=64k status=none",
    "sort": "sort text.txt > out",
    "sort spilling": "sort -S 64k -T . text.txt -o out",
    "gzip": "gzip -k data.bin && gunzip -c data.bin.gz > out",
    "sed": "sed s/line/row/ text.txt > out; sed -i s/of/OF/ text.txt",
    "grep": "grep -c 7 text.txt > out",
    "pipeline": "cat text.txt | sort -r | uniq | head -n 5 | wc -l > out",
    "tar": "tar cf out.tar data.bin text.txt && mkdir x && tar xf out.tar -C x",
    "cp": "cp data.bin out && cmp data.bin out",
    "awk": "awk '{ n += NF } END { print n }' text.txt > out",
    "subshells": "(cat data.bin > a; (cat a > b)); x=$(cat text.txt | wc -c); echo $x > c; exec wc text.txt",
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_all_bytes_of_real_programs_are_captured(traced: Run, user: list[str], name: str) -> None:
    for tool in ("awk", "gzip", "tar", "cmp"):
        if tool in SCRIPTS[name] and shutil.which(tool) is None:
            pytest.skip(f"no {tool}")
    rows = programs(traced(*user, "bash", "-c", SCRIPTS[name]))
    assert rows["share"].notna().all(), show(rows)
    # What a process that SIGPIPE ended had read ahead is unknown.
    alive = rows[rows["signal"].isna()]
    assert all(exact(row) for row in alive.to_dict("records")), show(rows)
    assert ledger.totals(alive)["share"] == 1.0


@pytest.mark.parametrize("mode", ["seek", "stdio_fork", "unreaped", "waits", "kill_child"])
def test_the_account_is_exact(traced: Run, user: list[str], ledger_program: str, mode: str) -> None:
    rows = programs(traced(*user, ledger_program, mode))
    assert len(rows) >= (1 if mode == "seek" else 2)
    assert all(exact(row) for row in rows.to_dict("records")), show(rows)


@pytest.mark.parametrize("mode", ["busy", "churn"])
def test_an_account_is_exact_or_none_while_threads_write(
    traced: Run, user: list[str], ledger_program: str, mode: str
) -> None:
    rows = programs(traced(*user, ledger_program, mode))
    killed = rows[rows["signal"] == 9]
    assert len(killed) == 40 and sorted(killed["captured_written"]) == [1000 * (i + 1) for i in range(40)]
    known = rows[rows["kernel_written"].notna()]
    assert all(exact(row) for row in known.to_dict("records")), show(rows)
    if mode == "busy" or not user:
        assert len(known) > 20, show(rows)


# By mode of the program: the calls that read, and the file that they read.
LIBC_CALLS = {
    "users": {"getpwent": "/etc/passwd", "getpwuid": "/etc/passwd", "getgrgid": "/etc/group"},
    "network": {"getaddrinfo": "/etc/hosts", "getservbyname": "/etc/services", "getprotobyname": "/etc/protocols"},
    "time": {"localtime": "/usr/share/zoneinfo/Europe/Berlin", "tzset": "/usr/share/zoneinfo/Asia/Tokyo"},
    "log": {"syslog": "/usr/share/zoneinfo/Europe/Berlin"},
    **{call: {call: "/usr/share/zoneinfo/Europe/Berlin"} for call in ("gmtime", "timegm", "timelocal", "strptime")},
    "logins": {call: "/" for call in ("pututline", "pututxline", "updwtmp", "updwtmpx", "libc")},
    "remote": {"ruserpass": "/", "ruserok": "/etc/passwd"},
    "locale": {"setlocale": "/usr/share/locale/locale.alias", "sysconf": "/sys/devices/system/cpu/online"},
    "stack": {
        "pthread_getattr_np": "/proc/self/maps",
        "pthread_setname_np": "/proc/self/comm",
        "pthread_getname_np": "/proc/self/comm",
    },
    "semaphore": {"sem_open": "/dev/shm"},
    "threads": {"getaddrinfo": "/etc/hosts", "getpwnam": "/etc/passwd"},
}


@pytest.mark.parametrize("mode", LIBC_CALLS)
def test_reads_inside_libc_are_recorded(
    traced: Run, program: Callable[[str], Path], read_trace: Any, tmp_path: Path, mode: str
) -> None:
    (row,) = traced(program("libc_calls"), mode).to_dict("records")
    assert exact(row), row
    events = [e for e in read_trace(tmp_path / "run").events if e["cat"] == "LIBC"]
    seen = {e["name"] for e in events if e["args"]["size"] > 0}
    assert {call for call, file in LIBC_CALLS[mode].items() if Path(file).exists()} <= seen
    assert all(e["path"] is None for e in events)
    assert sum(e["name"] == "localtime" for e in events) <= 1


def test_a_module_of_the_name_service_is_counted_once(
    traced: Run, program: Callable[[str], Path], read_trace: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = program("libc_calls")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(calls.parent))
    probe = tmp_path / "work" / "probe.txt"
    probe.write_text("a probe\n" + "x" * 3000 + "\n")
    (row,) = traced(calls, "module").to_dict("records")
    assert exact(row), row
    trace = read_trace(tmp_path / "run")
    assert sum(e["args"]["size"] for e in trace.of(probe, {"read", "fgets"})) == 3 * (probe.stat().st_size + 8)


def test_a_stream_that_turns_from_reading_to_writing(traced: Run, program: Callable[[str], Path]) -> None:
    (row,) = traced(program("ledger"), "turns").to_dict("records")
    assert exact(row), row
    assert row["kernel_written"] > 12_000


def test_libraries_with_headers_at_their_end_are_in_the_account(traced: Run) -> None:
    """numpy's wheels have such: the dynamic linker reads the headers by calls of their own, which no hook sees."""
    (row,) = traced(sys.executable, "-c", "import numpy").to_dict("records")
    assert exact(row), row


# What forked children do: load(n) loads a library and finds a function in it, thread() starts one.
LOADING_CHILDREN = {
    "then threads": "child(lambda: (load(1), load(2), thread(), load(3)))",
    "from threads": "thread(); child(lambda: (load(1), load(2), load(3)))",
    "from threads, then threads": "thread(); child(lambda: (load(1), thread(), load(2), load(3)))",
    "of a child": "thread(); load(0); child(lambda: (load(1), child(lambda: (load(2), load(3)))))",
}


@pytest.mark.parametrize("children", LOADING_CHILDREN)
def test_libraries_loaded_by_a_child_are_in_its_account(traced: Run, tmp_path: Path, children: str) -> None:
    for i in range(4):
        source = tmp_path / f"{i}.c"
        source.write_text("int function(void) { return 0; }\n")
        subprocess.run(["cc", "-shared", "-fPIC", "-o", tmp_path / f"lib{i}.so", source], check=True)
    rows = traced(
        sys.executable,
        "-c",
        f"""
import ctypes, os, threading
open({str(source)!r}).close()
def load(n):
    return ctypes.CDLL({str(tmp_path)!r} + f"/lib{{n}}.so").function
def thread():
    threading.Thread(target=threading.Event().wait, daemon=True).start()
def child(does):
    if pid := os.fork():
        os.waitpid(pid, 0)
    else:
        does()
        os.write(os.open(os.devnull, os.O_WRONLY), bytes(1000))
        os._exit(0)
{LOADING_CHILDREN[children]}
""",
    )
    assert len(rows) > 1 and all(exact(row) for row in rows.to_dict("records")), show(rows)


@pytest.mark.parametrize(
    "what",
    [
        *("options", "said", "tables", "argp", "argp --help", "argp --wrong"),
        *("logged", "buffered", "translated", "assert", "assert_error", "assert_old"),
    ],
)
def test_libcs_own_writes_and_reads_are_in_the_account(traced: Run, program: Callable[[str], Path], what: str) -> None:
    (row,) = traced(program("messages"), *what.split(), code=None).to_dict("records")
    assert exact(row), row
    assert row["kernel_written"] > 0


def test_the_bytes_of_a_raw_system_call_are_missing(traced: Run, program: Callable[[str], Path]) -> None:
    (row,) = traced(program("ledger"), "raw").to_dict("records")
    assert row["kernel_written"] - row["captured_written"] == 100_000
    assert row["share"] == pytest.approx(1000 / 101_000)
    assert row["cause_key"] == "own_calls"


def test_the_launcher_accounts_for_a_killed_command(traced: Run, program: Callable[[str], Path]) -> None:
    (row,) = traced(program("ledger"), "kill", code=137).to_dict("records")
    assert (row["account"], row["signal"]) == ("parent", 9)
    assert row["kernel_written"] == row["captured_written"] == 1_000_000


def test_a_killed_child_has_its_parents_account_of_it(traced: Run, program: Callable[[str], Path]) -> None:
    rows = traced(program("ledger"), "kill_child").sort_values("captured_written")
    parent, child = rows.to_dict("records")
    assert (parent["account"], child["account"], child["signal"]) == ("exit", "parent", 9)
    assert child["kernel_written"] == 1_000_000 and parent["kernel_written"] == 0


def test_every_child_has_its_account_whichever_thread_takes_it(
    traced: Run, user: list[str], ledger_program: str, read_trace: Any, tmp_path: Path
) -> None:
    rows = programs(traced(*user, ledger_program, "waiters"))
    parent, *children = rows.sort_values("captured_written").to_dict("records")
    assert [child["captured_written"] for child in children] == [1000 * (i + 1) for i in range(60)]
    assert all(child["signal"] == 9 for child in children), show(rows)
    known = rows[rows["kernel_written"].notna()]
    assert all(exact(row) for row in known.to_dict("records")), show(rows)
    # For an ordinary user the last one's bytes are inseparable from those of the other threads, which end meanwhile.
    assert len(known) == 61 if not user else len(known) > 30, show(rows)
    waits = [e for e in read_trace(tmp_path / "run").events if e["name"] == "wait"]
    assert len({e["args"]["ret"] for e in waits}) == len(waits) == 60


def test_in_a_pid_namespace_with_the_proc_of_another_one(traced: Run) -> None:
    """There /proc/PID is the process with that number outside."""
    inside = ["unshare", "--pid", "--fork", "sh", "-c", "head -c 5000 /dev/zero > a; cat a > b; true"]
    if subprocess.run([*inside[:3], "true"], capture_output=True, check=False).returncode:
        pytest.skip("no pid namespace can be made here")
    rows = programs(traced(*inside))
    assert {"head", "cat"} <= {Path(exe).name for exe in rows["exe"]}
    assert all(exact(row) for row in rows.to_dict("records")), show(rows)


def test_a_chain_of_programs_is_one_account(traced: Run, program: Callable[[str], Path]) -> None:
    (row,) = traced(program("ledger"), "chain", 4).to_dict("records")
    assert row["kernel_written"] == row["captured_written"] == 1000 * (4 + 3 + 2 + 1)
    assert exact(row)


def test_an_unwaited_daemon_accounts_for_itself(traced: Run, program: Callable[[str], Path], tmp_path: Path) -> None:
    traced(program("ledger"), "daemon")
    rows = tailrace.open(tmp_path / "run").coverage
    deadline = time.monotonic() + 120
    while 70_000 not in set(rows["kernel_written"]) and time.monotonic() < deadline:
        time.sleep(0.05)
        # It may have left its journal to a launcher that ended before it.
        recovery.recover(tmp_path / "run")
        rows = tailrace.open(tmp_path / "run").coverage
    assert 70_000 in set(rows["kernel_written"]), show(rows)
    assert all(exact(row) for row in rows.to_dict("records")), show(rows)


def static_program(directory: Path) -> Path:
    """A program that nothing can be preloaded into; it writes 90,000 bytes."""
    source, program = directory / "static.c", directory / "static"
    source.write_text("#include <unistd.h>\nstatic char b[90000]; int main() { return write(1, b, sizeof b) < 0; }\n")
    if subprocess.run(["cc", "-static", "-o", program, source], capture_output=True, check=False).returncode:
        pytest.skip("nothing static can be linked here")
    return program


def test_a_program_that_is_not_traced_is_named(traced: Run, tmp_path: Path) -> None:
    program = static_program(tmp_path)
    starts = f"import subprocess; subprocess.run([{str(program)!r}], stdout=open('out', 'w'))"
    rows = traced(sys.executable, "-c", starts)
    (row,) = rows[~rows["traced"]].to_dict("records")
    assert row["kernel_written"] == 90_000 and row["exe"] == str(program)
    assert row["cause"] == f"not traced: {ledger.WORDS['static']}"
    totals = ledger.totals(rows)
    assert totals["untraced"] == 1 and totals["share"] < 0.999


def setuid_program(directory: Path) -> Path:
    """dd with the rights of another user."""
    program = Path(shutil.copy(str(shutil.which("dd")), directory / "setuid"))
    os.chown(program, ordinary_user.ID, ordinary_user.ID)
    program.chmod(0o4755)
    return program


def go_program(directory: Path) -> Path:
    """A static Go program; it writes 90,000 bytes to its output."""
    source, program = directory / "program.go", directory / "go"
    source.write_text('package main\nimport "os"\nfunc main() { os.Stdout.Write(make([]byte, 90000)) }\n')
    go = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin:/usr/lib/go/bin")
    if go is None:
        pytest.skip("no go to build with")
    # Beside the directory, so that Go's library is built once for all tests.
    cache = directory.parent / "go-cache"
    env = {"HOME": str(directory), "PATH": os.environ["PATH"], "GOCACHE": str(cache), "CGO_ENABLED": "0"}
    subprocess.run([go, "build", "-o", program, source], check=True, env=env, timeout=300)
    return program


def musl_program(directory: Path) -> Path:
    """A dynamic program of musl's; it writes 90,000 bytes to its output."""
    source, program = directory / "musl.c", directory / "musl"
    source.write_text("#include <unistd.h>\nstatic char b[90000]; int main() { return write(1, b, sizeof b) < 0; }\n")
    if shutil.which("musl-gcc") is None:
        pytest.skip("no musl-gcc (Debian: musl-tools)")
    subprocess.run(["musl-gcc", "-o", program, source], check=True)
    return program


STARTS = {
    "vfork": "import subprocess; subprocess.run({words!r}, stdout=open('out', 'w'))",
    "spawn": "import os; os.dup2(os.open('out', 65), 1); os.waitpid(os.posix_spawn({program!r}, {words!r}, {{}}), 0)",
}


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize(
    "why", [pytest.param("setuid", marks=pytest.mark.root("gives a program another owner")), "go", "musl"]
)
def test_the_reason_for_an_untraced_program_is_named(traced: Run, tmp_path: Path, why: str, start: str) -> None:
    program = {"setuid": setuid_program, "go": go_program, "musl": musl_program}[why](tmp_path)
    words = [str(program)]
    if why == "setuid":
        words += ["if=/dev/zero", "bs=90000", "count=1", "status=none"]
    rows = traced(sys.executable, "-c", STARTS[start].format(words=words, program=str(program)))
    (row,) = rows[~rows["traced"]].to_dict("records")
    assert row["kernel_written"] == 90_000 and row["exe"] == str(program)
    assert row["cause"] == f"not traced: {ledger.WORDS[why]}"


def test_an_untraced_first_program_is_named(traced: Run, tmp_path: Path) -> None:
    program = static_program(tmp_path)
    (row,) = traced(program).to_dict("records")
    assert row["exe"] == str(program) and row["cause"] == f"not traced: {ledger.WORDS['static']}"


def test_a_process_that_becomes_untraced_is_named(traced: Run, tmp_path: Path) -> None:
    program = static_program(tmp_path)
    rows = traced("bash", "-c", f"{program} > out; true")
    (row,) = rows[rows["share"] < ledger.COMPLETE_SHARE].to_dict("records")
    assert (
        row["kernel_written"] == 90_000
        and row["cause"] == f"went on as a program that is not traced: {ledger.WORDS['static']}"
    )


def test_waiting_returns_as_untraced(program: Callable[[str], Path], traced: Run, tmp_path: Path) -> None:
    bare = subprocess.run([program("ledger"), "waits"], cwd=tmp_path, capture_output=True, check=True)
    traced(program("ledger"), "waits")
    words = [*TAILRACE, "run", "-o", str(tmp_path / "again"), "--"]
    done = subprocess.run([*words, program("ledger"), "waits"], cwd=tmp_path, capture_output=True, check=True)
    assert done.stdout == bare.stdout
