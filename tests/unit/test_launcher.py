"""Running a command as a shell would: exit codes, signals, what it finds; and which programs can carry the core."""

import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from support import trace_writer
from support.ordinary_user import ID, MARKER, reach
from tailrace import _native
from tailrace.integrations import launcher, pool
from tailrace.integrations.environment import task_environment


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (["true"], 0),
        (["sh", "-c", "exit 3"], 3),
        (["sh", "-c", "kill -KILL $$"], 128 + 9),
        (["sh", "-c", "kill -SEGV $$"], 128 + 11),
        (["no-such-command-anywhere"], 127),
        (["/no/such/path"], 127),
        ([os.sep], 126),
    ],
)
def test_exit_codes_are_a_shells(command, code):
    assert launcher.run_command(command, os.environ) == code


def test_a_file_without_permission_is_not_executable(tmp_path):
    (tmp_path / "data").write_text("x")
    assert launcher.run_command([str(tmp_path / "data")], os.environ) == 126


def test_a_text_without_an_interpreter_is_the_shells(tmp_path):
    script, binary = tmp_path / "script", tmp_path / "binary"
    script.write_text('test "$1" = "a b" && exit 7\n')
    binary.write_bytes(b"\x7fnone\0")
    for path in (script, binary):
        path.chmod(0o700)
    assert launcher.run_command([str(script), "a b"], os.environ) == 7
    assert launcher.run_command([str(binary)], os.environ) == 126


def run_in_python(body, prefix=(), **popen):
    """Python that runs `body` with launcher imported, in a process of its own; `prefix`: words before its command."""
    code = "import ctypes, os, sys, signal\nfrom tailrace.integrations import launcher\n" + textwrap.dedent(body)
    return subprocess.Popen([*prefix, sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, **popen)


def accounts_of(tmp_path, become, command, prefix):
    body = f"""
        os.chdir({str(tmp_path)!r})
        {become}
        sys.exit(launcher.run_command({command!r}, os.environ, '.'))
    """
    process = run_in_python(body, prefix)
    process.communicate(timeout=60)
    return process.returncode, [json.loads(path.read_bytes()) for path in (tmp_path / "accounts").iterdir()]


# A process that changes its user can't read its own /proc files until it executes another program or sets dumpable
# (prctl(2)).
ORDINARY = f"os.setgroups([]); os.setresgid(*[{ID}] * 3); os.setresuid(*[{ID}] * 3); ctypes.CDLL(None).prctl(4, 1)"


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="the kernel keeps no I/O account")
@pytest.mark.parametrize(
    "become",
    [pytest.param("pass", id="as we are"), pytest.param(ORDINARY, id="as an ordinary user", marks=MARKER)],
)
def test_the_account_of_a_command_is_the_kernels(tmp_path, become):
    tmp_path.chmod(0o777)
    prefix = reach(tmp_path) if become == ORDINARY else []
    dd = ["dd", "if=/dev/zero", "of=/dev/null", "bs=70000", "count=3", "status=none"]
    code, (row,) = accounts_of(tmp_path, become, dd, prefix)
    assert code == 0 and row["wchar"] == 210_000 and 210_000 < row["rchar"] < 230_000
    # What its child moved is its own: the kernel adds it.
    code, rows = accounts_of(tmp_path, become, ["sh", "-c", " ".join(dd) + "; kill -9 $$"], prefix)
    (row,) = [row for row in rows if row["status"]]
    assert code == 137 and row["status"] == 9 and row["wchar"] == 210_000


def wait_for(path):
    deadline = time.monotonic() + 120
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} did not appear"
        time.sleep(0.01)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1])
def test_a_signal_to_the_launcher_goes_to_the_command(tmp_path, number):
    ready = tmp_path / "ready"
    script = f"trap 'exit 42' {number.name[3:]}; : > {ready}; while :; do sleep 0.05; done"
    # The tests themselves may have been started with it ignored (nohup), which a shell can't undo by a trap.
    heard = f"signal.signal({int(number)}, signal.SIG_DFL)"
    process = run_in_python(f"{heard}\nsys.exit(launcher.run_command(['sh', '-c', {script!r}], os.environ))")
    wait_for(ready)
    process.send_signal(number)
    assert process.wait(120) == 42


def test_ctrl_c_reaches_the_command_once(tmp_path):
    """The terminal signals the whole group; passing it on too would interrupt the command's own clean-up."""
    master, slave = os.openpty()
    log, ready = tmp_path / "log", tmp_path / "ready"
    command = (
        "import os, signal, time\n"
        f"signal.signal(signal.SIGINT, lambda *_: open({str(log)!r}, 'a').write('int\\n'))\n"
        f"open({str(ready)!r}, 'w').close()\n"
        f"while not os.path.exists({str(log)!r}): time.sleep(0.05)\n"
        "end = time.monotonic() + 1\n"
        "while time.monotonic() < end: time.sleep(0.05)\n"
    )
    body = (
        "import fcntl, termios\n"
        "fcntl.ioctl(0, termios.TIOCSCTTY, 0)\n"
        f"sys.exit(launcher.run_command([sys.executable, '-c', {command!r}], os.environ))"
    )
    process = run_in_python(body, stdin=slave, start_new_session=True)
    wait_for(ready)
    os.write(master, b"\x03")
    assert process.wait(120) == 0
    assert log.read_text() == "int\n"
    os.close(master)
    os.close(slave)


def test_a_hang_up_of_the_terminal_reaches_the_command(tmp_path):
    """As when the connection of `ssh -t HOST tailrace run ...` breaks: the kernel tells the session's leader only."""
    master, slave = os.openpty()
    ready = tmp_path / "ready"
    script = f"trap 'exit 42' HUP; : > {ready}; i=0; while [ $i -lt 2400 ]; do i=$((i + 1)); sleep 0.05; done"
    body = (
        "import fcntl, termios\n"
        "signal.signal(signal.SIGHUP, signal.SIG_DFL)\n"
        "fcntl.ioctl(0, termios.TIOCSCTTY, 0)\n"
        f"sys.exit(launcher.run_command(['sh', '-c', {script!r}], os.environ))"
    )
    process = run_in_python(body, stdin=slave, start_new_session=True)
    os.close(slave)
    wait_for(ready)
    os.close(master)
    assert process.wait(120) == 42


def test_the_command_starts_with_the_signals_that_the_caller_had():
    """Neither our blocked mask nor what Python ignores is handed on."""
    body = "sys.exit(launcher.run_command(['grep', '-E', '^Sig(Blk|Ign):', '/proc/self/status'], os.environ))"
    process = run_in_python(body)
    lines = dict(line.split() for line in process.communicate()[0].splitlines())
    assert process.returncode == 0
    assert int(lines["SigBlk:"], 16) == 0
    assert int(lines["SigIgn:"], 16) & (1 << (signal.SIGPIPE - 1)) == 0


def test_the_summary_counts_only_what_was_added(tmp_path):
    old = tmp_path / "trace" / "h-1-0.pfw.gz"
    old.parent.mkdir()
    old.write_bytes(b"x" * 10)
    summary = launcher.Summary()
    launcher.add_blocks(summary, tmp_path, launcher.whole_sizes(tmp_path))
    assert (summary.events, summary.processes) == (0, 0)


def test_this_process_and_its_ancestors_are_none_of_a_runs():
    names = [f"host-{pid}-abc.0.tj" for pid in (os.getpid(), os.getppid(), 1, 999_999_999)]
    assert _native.processes_of(names) == {999_999_999}


def test_other_files_are_no_processes(tmp_path):
    run, journals = tmp_path / "run", tmp_path / "journals"
    (run / "trace").mkdir(parents=True)
    env = {"TAILRACE_JOURNAL_DIR": str(journals)}
    place = Path(_native.journal_directory(str(run), str(journals)))
    place.mkdir(parents=True)
    for name in ("host-17-abc.0.tj", "host-x-abc.0.tj", "core.tj", "a-b-c-d.tj"):
        (place / name).write_bytes(b"")
    assert launcher.unsealed_pids(run, env) == {17}


def test_programs_that_can_be_preloaded():
    assert _native.program_obstacle(sys.executable) is None
    assert _native.program_obstacle("cat") is None
    assert _native.program_obstacle("no-such-command-anywhere") is None


def test_a_script_is_classified_by_its_interpreter(tmp_path):
    static = static_program(tmp_path)
    script = tmp_path / "script"
    script.write_text(f"#!{static} -x\n")
    script.chmod(0o755)
    word, program, reason, _ = _native.program_obstacle(str(script))
    assert (word, program) == ("static", str(script)) and f"{script} is statically linked" in reason


def test_a_static_program_can_not_be_preloaded(tmp_path):
    _, _, reason, breaks = _native.program_obstacle(str(static_program(tmp_path)))
    assert "statically linked" in reason
    assert not breaks


def static_program(folder: Path) -> Path:
    source = folder / "static.c"
    source.write_text("int main(void) { return 0; }\n")
    subprocess.run(["cc", "-static", "-o", folder / "static", source], check=True)
    return folder / "static"


def test_a_musl_program_can_not_be_preloaded(tmp_path):
    """By its loader's name: the real one, patched into a copy of a dynamic program."""
    original = Path(shutil.which("cat")).read_bytes()
    loader = b"/lib64/ld-linux-x86-64.so.2\0"
    if loader not in original:
        pytest.skip("the loader's name to patch is x86-64's")
    patched = tmp_path / "cat"
    patched.write_bytes(original.replace(loader, b"/lib/ld-musl-x86_64.so.1".ljust(len(loader), b"\0")))
    patched.chmod(0o755)
    _, _, reason, breaks = _native.program_obstacle(str(patched))
    assert "musl" in reason
    assert breaks


def test_an_earlier_preload_stays_after_the_core(tmp_path):
    env = task_environment(tmp_path, "stage=b", {"LD_PRELOAD": "/a.so:/b.so", "TAILRACE_TAGS": "workflow=w,stage=a"})
    first, *others = env["LD_PRELOAD"].split(":")
    assert first.endswith("/libtailrace.so")
    assert others == ["/a.so", "/b.so"]
    assert env["TAILRACE_TAGS"] == "workflow=w,stage=b"
    assert env["TAILRACE_RUN"] == str(tmp_path)
    assert task_environment(tmp_path, "", env)["LD_PRELOAD"] == env["LD_PRELOAD"]


def test_a_pool_command_may_begin_with_assignments():
    words = ["TAILRACE_RUN=/r", "--", "OMP_NUM_THREADS=1", "process_worker_pool.py", "A=b"]
    settings, command = pool._split(words)
    assert settings == {"TAILRACE_RUN": "/r", "OMP_NUM_THREADS": "1"}
    assert command == ["process_worker_pool.py", "A=b"]


def test_a_pool_without_a_run_or_a_command_is_a_usage_error(capsys):
    assert pool.main(["--", "true"]) == 2
    assert pool.main(["TAILRACE_RUN=/r", "--"]) == 2
    assert "usage" in capsys.readouterr().err


def test_the_summary_counts_the_processes_of_a_nodes_file(tmp_path):
    blocks = [trace_writer.block([trace_writer.event(pid=pid)], {"start": f"{pid:x}"}) for pid in (1, 2, 2, 3)]
    run = trace_writer.make_run(tmp_path / "run", {"node_1-3-3": blocks[3], "node_1.0": b"".join(blocks[:3])})
    before = launcher.whole_sizes(run)
    summary = launcher.Summary()
    launcher.add_blocks(summary, run, {})
    assert (summary.events, summary.processes) == (4, 3)
    with (run / "trace" / "node_1.0.pfw.gz").open("ab") as file:
        file.write(blocks[3])
    summary = launcher.Summary()
    launcher.add_blocks(summary, run, before)
    assert (summary.events, summary.processes) == (1, 1)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be an ordinary user for a moment")
def test_another_users_journals_under_ones_own_number_are_not_looked_for(tmp_path: Path) -> None:
    """As in a user namespace, where the user's number is another one's outside."""
    run, place = tmp_path / "run", tmp_path / "place"
    (place / f"tailrace-{ID}").mkdir(parents=True, mode=0o700)
    tmp_path.chmod(0o755)
    os.seteuid(ID)
    try:
        assert launcher.journals(run, {"TAILRACE_JOURNAL_DIR": str(place)}) == []
    finally:
        os.seteuid(0)
