"""Do no harm: small hostile programs (../programs) behave traced as they do untraced, and their trace is whole.

Every case runs a program twice, in two directories that are made alike: what it prints, how it ends and what files it
leaves must be the same. Reading the trace checks that each line is JSON. Each test states its further expectations.
"""

import errno
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support import sanitizer
from support.commands import TAILRACE
from support.harm import Harm, Program
from support.truth import trace_files
from tailrace import _native


def wait_until(condition: Callable[[], bool], what: str) -> None:
    for _ in range(2400):
        if condition():
            return
        time.sleep(0.05)
    pytest.fail(f"timed out: {what}")


# ---- deaths --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "how",
    ["term", "segv", "abort", "_exit", "_Exit", "quick_exit", "exit_group", "thread_exits", "main_leaves", "return"],
)
def test_nothing_is_lost_however_a_process_ends(harm: Harm, program: Program, how: str) -> None:
    harm(program("deaths"), how).check_written("out")


def test_kill_loses_no_write_that_had_returned(harm: Harm, program: Program) -> None:
    done = harm(program("deaths"), "kill", same_files=False)
    written = (done.work / "out").stat().st_size
    # One write may have been done by the kernel without having returned.
    assert written > 10_000
    assert done.seen.written(done.work / "out") in (written, written - 10)


def test_threads_that_write_while_the_process_exits_are_recorded(harm: Harm, program: Program) -> None:
    done = harm(program("deaths"), "threads_write", same_files=False)
    done.check_written("out", "thread0", "thread1", "thread2")
    missing = (done.work / "thread3").stat().st_size - done.seen.written(done.work / "thread3")
    assert 0 <= missing <= 10


def test_bytes_in_buffers_at_exit_belong_to_the_streams(harm: Harm, program: Program) -> None:
    harm(program("deaths"), "buffered").check_written("buffered")


# ---- threads -------------------------------------------------------------------------------------------------------


def test_threads_open_and_close_streams(harm: Harm, program: Program) -> None:
    done = harm(program("threads"), "opens", same_files=False)
    assert len(done.seen.named("fclose")) >= 8 * 200 * 2


def test_a_stream_that_threads_share_is_counted_once(harm: Harm, program: Program) -> None:
    harm(program("threads"), "shared", same_files=False).check_written("shared")


def test_fork_while_threads_do_io(harm: Harm, program: Program) -> None:
    done = harm(program("threads"), "fork", same_files=False)
    assert done.stdout == "failed 0\n"
    done.check_written("children", "busy0", "busy1", "busy2", "busy3")


@pytest.mark.parametrize("what", ["destructors", "many"])
def test_destructors_of_threads_may_do_io(harm: Harm, program: Program, what: str) -> None:
    # Threads append in any order.
    harm(program("threads"), what, same_files=False).check_written("destructors")


def test_unjoined_threads_are_recorded(harm: Harm, program: Program) -> None:
    done = harm(program("threads"), "turns")
    done.check_written("turns")
    assert len({event["tid"] for event in done.seen.named("write")}) == 30


def test_a_thread_begins_in_its_creators_context(harm: Harm, program: Program) -> None:
    done = harm(program("threads"), "context")
    seen = done.seen
    tasks: dict[str | None, set[str | None]] = {}
    for event in seen.named("write"):
        path = seen.path(event)
        if path and Path(path).parent == done.work.resolve():
            tasks.setdefault(Path(path).name, set()).add(event["args"].get("task"))
    assert tasks == {"one": {"one"}, "two": {"two"}, "inherited": {"one", "two"}}


def test_a_constructor_that_is_first_and_a_thread_with_its_own_directory(harm: Harm, program: Program) -> None:
    done = harm(program("early"), "an argument")
    assert done.stdout == "42\n"
    done.check_written("early", "file", "sub/file")
    (start,) = done.seen.named("start")
    assert start["args"]["argv"] == [str(program("early")), "an argument"]


# ---- children ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["vfork", "missing"])
def test_a_childs_descriptors_are_not_its_parents(harm: Harm, program: Program, what: str) -> None:
    harm(program("forks"), what).check_written("a", "b")


def test_children_that_return_seal_their_own_records(harm: Harm, program: Program) -> None:
    done = harm(program("forks"), "returns", same_files=False)
    done.check_written("a")
    assert len(done.seen.named("start")) == 4


@pytest.mark.parametrize("what", ["daemon", "close"])
def test_a_daemon_may_close_all_descriptors(harm: Harm, program: Program, what: str) -> None:
    done = harm(program("forks"), what, same_files=False)
    wait_until((done.work / "done").exists, "the daemon")

    def sealed() -> bool:
        subprocess.run([*TAILRACE, "seal", str(done.run)], check=False, capture_output=True)
        return done.seen.written(done.work / "done") == 1

    wait_until(sealed, "the daemon's journal")
    done.check_written("a", "b", *(["closed", "closed2"] if what == "close" else []))


def test_every_exec_keeps_arguments_environment_tags_and_the_trace_file(harm: Harm, program: Program) -> None:
    done = harm(program("chains"))
    assert (done.work / "out").read_text().splitlines()[1] == "1 6: [one] [two words] [] [four] -"
    done.check_written("out")
    assert len(trace_files(done.run)) == 1
    seen = done.seen
    assert {event["args"].get("stage") for event in seen.events} == {"harm"}
    assert len({event["pid"] for event in seen.events}) == 1
    assert len(seen.named("start")) == 16
    failed = [event["args"]["errno"] for event in seen.named("execve") if "errno" in event["args"]]
    assert failed == [errno.ENOENT, errno.ENOENT, errno.EBADF]
    executed = [seen.path(event) for event in seen.named("execve") if "errno" not in event["args"]]
    assert executed == [str(program("chains").resolve())] * 15


def test_system_popen_and_pclose_return_as_libcs(harm: Harm, program: Program) -> None:
    harm(program("spawns"))


# ---- the environment -----------------------------------------------------------------------------------------------


def test_a_program_sees_the_environment_it_would_see_untraced(harm: Harm, program: Program) -> None:
    harm(program("environment"), "print")


def test_another_preload_stays_visible_and_in_place(harm: Harm, program: Program) -> None:
    interposer = program("interposer.so")
    harm(program("environment"), "print", env={"LD_PRELOAD": str(interposer)})


def test_a_child_with_an_empty_environment_is_traced(harm: Harm, program: Program) -> None:
    harm("env", "-i", shutil.which("cp") or "cp", "given", "copied").check_written("copied")


@pytest.mark.parametrize(("what", "file"), [("clear", "copied"), ("setproctitle", "titled")])
def test_children_are_traced_after_any_change_of_environ(harm: Harm, program: Program, what: str, file: str) -> None:
    harm(program("environment"), what).check_written(file)


# ---- names, pointers, descriptors ----------------------------------------------------------------------------------


def test_names_are_exact(harm: Harm, program: Program) -> None:
    done = harm(program("names"))
    root = os.fsencode(done.work.resolve())
    files = done.seen.files.values()
    exact = {bytes.fromhex(file["bytes"]) if "bytes" in file else os.fsencode(file["name"]) for file in files}
    names = {bytes(path) for path in done.work.resolve().iterdir()}
    assert len(names) > 12
    assert names - exact == {root + b"/given"}
    for file in files:
        assert ("bytes" in file) == ("\ufffd" in file["name"]), file


def test_bad_pointers_are_refused_by_the_kernel(harm: Harm, program: Program) -> None:
    harm(program("pointers"))


def test_of_a_path_no_more_is_read_than_the_kernel_reads(harm: Harm, program: Program) -> None:
    """Paths of any length, with and without an end, before memory that is not there."""
    done = harm(program("paths"))
    lengths = {len(done.seen.path(event) or "") for event in done.seen.named("open", "stat", "rename")}
    assert max(lengths) > 4000 and min(lengths) < 300


@pytest.mark.parametrize("attempt", range(3))
def test_threads_are_recorded_while_others_close_every_descriptor(harm: Harm, program: Program, attempt: int) -> None:
    done = harm(program("sweeps"), "48", "1500")
    assert done.seen.written(done.work / "file") == 48 * 1500
    assert "nothing lost" in done.stderr


def test_a_program_that_closes_every_descriptor_keeps_its_own_files(harm: Harm, program: Program) -> None:
    done = harm(program("sweeps"), "own", "200")
    assert done.seen.written(done.work / "of0.0") == 200 // 20 * 64
    assert "nothing lost" in done.stderr


def test_no_phantom_bytes_when_a_number_is_used_again(harm: Harm, program: Program) -> None:
    done = harm(program("descriptors"), "used_again")
    seen = done.seen
    assert seen.written(done.work / "file") == 30 * len("in file\n")
    assert seen.written(done.work / "other") == 30 * len("other\n")
    assert seen.read(done.work / "file") == seen.read(done.work / "other") == 0


PLACES = """
import os
fd = os.open("out", os.O_RDWR | os.O_CREAT)
os.write(fd, b"0123456789"), os.write(fd, b"01234"), os.pwrite(fd, b"xx", 100)
os.lseek(fd, 4, os.SEEK_SET)
os.read(fd, 6), os.read(fd, 3), os.pread(fd, 2, 1), os.write(fd, b"y")
"""


def test_every_transfer_has_its_place_in_the_file(harm: Harm) -> None:
    done = harm(sys.executable, "-S", "-E", "-c", PLACES)
    seen = done.seen
    moved = [
        event for event in seen.named("write", "pwrite", "read", "pread") if seen.path(event) == str(done.work / "out")
    ]
    moved.sort(key=lambda event: (event["ts"], event["args"].get("ns", 0)))
    places = [(event["name"], event["args"]["offset"], event["args"]["size"]) for event in moved]
    assert places == [
        ("write", 0, 10),
        ("write", 10, 5),
        ("pwrite", 100, 2),
        ("read", 4, 6),
        ("read", 10, 3),
        ("pread", 1, 2),
        ("write", 13, 1),
    ]


def test_no_phantom_bytes_after_any_kind_of_close(harm: Harm, program: Program) -> None:
    done = harm(program("closers"))
    closers, of_streams, ways = 17, 4, 5
    # Four bytes at the start, and once for each of the descriptors, twice where it is a copy of the stream's.
    assert done.seen.written(done.work / "file") == 4 + 4 * ways * (2 * closers - of_streams)
    assert done.seen.read(done.work / "file") == 4 * ways * closers


def test_a_vmsplice_out_of_a_pipe_reads(harm: Harm, program: Program) -> None:
    (event,) = harm(program("moves"), "drained").seen.named("vmsplice")
    assert (event["args"]["dir"], event["args"]["size"], event["args"]["count"]) == ("r", 150, 150)


def test_shared_memory_is_a_file(harm: Harm, program: Program) -> None:
    name = f"/tailrace-test-{secrets.token_hex(8)}"
    seen = harm(program("moves"), "shared", name).seen
    assert seen.written(Path("/dev/shm" + name)) == 8192
    assert [e["args"]["count"] for e in seen.named("mmap") if seen.path(e) == "/dev/shm" + name] == [8192]


def test_queues_and_counters(harm: Harm, program: Program) -> None:
    seen = harm(program("moves"), "queues").seen
    (written,) = seen.named("eventfd_write")
    assert (written["args"]["size"], written["args"]["ret"], written["args"]["dir"]) == (8, 0, "w")
    for sent in seen.named("mq_send", "mq_receive"):
        assert sent["args"]["size"] == 33


def test_a_result_taken_late_belongs_to_its_own_file(harm: Harm, program: Program) -> None:
    data = harm.tmp_path / "data"
    data.write_bytes(bytes(400_004))
    done = harm(program("moves"), "asynchronous", data)
    assert done.seen.written(done.work / "out") == 2100
    assert done.seen.written(done.work / "other") == 0


ATTRIBUTES_PY = """
import ctypes, fcntl, os
def attempt(call, *arguments):
    try:
        call(*arguments)
    except OSError as error:
        print(call.__name__, error.errno)
fd = os.open("file", os.O_RDWR | os.O_CREAT)
os.chmod("file", 0o640), os.fchmod(fd, 0o600), os.chown("file", -1, -1), os.lchown("file", -1, -1)
os.fchown(fd, -1, -1)
os.utime("file", (5, 5)), os.utime(fd, (6, 6))
attempt(os.setxattr, "file", "user.a", b"b"), attempt(os.getxattr, fd, "user.a"), attempt(os.listxattr, "file")
attempt(os.removexattr, "file", "user.none")
os.posix_fallocate(fd, 10, 90), os.posix_fadvise(fd, 0, 10, os.POSIX_FADV_DONTNEED), os.sync()
attempt(os.posix_fallocate, fd, -1, 5)
fcntl.flock(fd, fcntl.LOCK_EX), fcntl.lockf(fd, fcntl.LOCK_EX)
os.mkfifo("fifo"), os.mknod("node")
print(sorted(entry.name for entry in os.scandir(".")))
"""


def test_attributes_blocks_and_locks_are_recorded_for_their_file(harm: Harm) -> None:
    done = harm(sys.executable, "-c", ATTRIBUTES_PY, same_files=False)
    seen = done.seen
    on_file = {event["name"] for event in seen.events if seen.path(event) == str(done.work / "file")}
    calls = {"chmod", "fchmod", "chown", "lchown", "fchown", "utimensat", "futimens", "setxattr", "fgetxattr"}
    calls |= {"listxattr", "removexattr", "posix_fallocate", "posix_fadvise", "flock", "fcntl"}
    assert calls - on_file == set()
    allocated = [event["args"] for event in seen.named("posix_fallocate")]
    assert [(args.get("offset"), args["count"], args["ret"]) for args in allocated] == [(10, 90, 0), (None, 5, -1)]
    assert allocated[1]["errno"] == errno.EINVAL
    assert {seen.path(event) for event in seen.named("mkfifo", "mknod", "mknodat")} == {
        str(done.work / "fifo"),
        str(done.work / "node"),
    }
    assert len([event for event in seen.named("readdir") if seen.path(event) == str(done.work)]) >= 5


def test_fcntl_and_dup_return_as_untraced(harm: Harm, program: Program) -> None:
    assert "ofd set 0" in harm(program("descriptors"), "commands").stdout


def test_streams_without_descriptors(harm: Harm, program: Program) -> None:
    harm(program("streams")).check_written("inside")


@pytest.mark.parametrize(("what", "file"), [("threads", "small"), ("seals", "many"), ("handler", "small")])
def test_small_stacks_are_enough(harm: Harm, program: Program, what: str, file: str) -> None:
    harm(program("stacks"), what).check_written(file)


# ---- signals -------------------------------------------------------------------------------------------------------


def test_a_handler_that_jumps_out_of_a_write(harm: Harm, program: Program) -> None:
    done = harm(program("signals"), "jump", same_files=False)
    written = (done.work / "out").stat().st_size
    # A write that was left by a jump had not returned.
    assert written - 10 * 500 <= done.seen.written(done.work / "out") <= written


def test_a_handler_that_does_io_during_io(harm: Harm, program: Program) -> None:
    done = harm(program("signals"), "handler", same_files=False)
    done.check_written("out", "handler", "opened")
    counts = [len(done.seen.named(name)) for name in ("open", "close")]
    assert min(counts) > 2000


def test_interrupted_calls_stay_interrupted(harm: Harm, program: Program) -> None:
    assert harm(program("signals"), "interrupt").stdout == "-1 4\n" * 3


# ---- linking -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["no_plt", "bound_now", "lto"])
def test_each_kind_of_symbol_binding(harm: Harm, program: Program, how: str) -> None:
    assert (b".symtab" in program(how).read_bytes()) == (how != "lto")
    done = harm(program(how))
    done.check_written("copied")
    assert done.seen.read(done.work / "given") == len("given to the program\n")


def test_a_library_whose_constructor_waits_for_io_of_a_thread(harm: Harm, program: Program) -> None:
    done = harm(sys.executable, "-c", f"import ctypes; ctypes.CDLL({str(program('constructor.so'))!r})")
    done.check_written("made", "list")


def test_another_tool_that_interposes(harm: Harm, program: Program) -> None:
    done = harm(program("interpose_client"), env={"LD_PRELOAD": str(program("interposer.so"))})
    assert "interposed 1" in done.stdout
    # libc's own handle gives libc's read, past every interposer: recorded all the same (core/src/hooks/trampolines.cc),
    # except in a sanitizer's build, where dlsym is libc's.
    assert done.seen.read(done.work / "given") == len("given to the program\n") + (0 if sanitizer.CHOSEN else 10)


def test_a_library_loaded_with_deepbind_is_recorded_with_gotcha(harm: Harm, program: Program) -> None:
    done = harm(program("interpose_client"), program("deep.so"))
    if '"gotcha":null' not in _native.build_info().replace(" ", ""):
        done.check_written("deep")


# ---- limits and lost directories -----------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[[str, str], Path]]:
    """Mounts a file system of few bytes; skips where this user may not."""
    mounted: list[Path] = []

    def mount(name: str, size: str) -> Path:
        place = tmp_path / name
        place.mkdir(parents=True)
        options = ["-t", "tmpfs", "-o", f"size={size},mode=700", "tmpfs", str(place)]
        if subprocess.run(["mount", *options], check=False, capture_output=True).returncode:
            pytest.skip("this user may not mount a tmpfs")
        mounted.append(place)
        return place

    yield mount
    for place in mounted:
        subprocess.run(["umount", "-l", str(place)], check=True)


def lost_events(stderr: str) -> int:
    """The losses in the summary, with the records left in journals without space."""
    found = re.findall(r"([\d,]+) events? (?:LOST|of \d+ journals? are unsealed)", stderr)
    return sum(int(number.replace(",", "")) for number in found)


DD = ["dd", "if=/dev/zero", "of=out", "bs=1", "count=100000", "status=none"]


def test_a_full_disk_under_the_run_loses_counted_events(harm: Harm, small_disk: Callable[[str, str], Path]) -> None:
    small_disk("run", "192k")
    done = harm(*DD)
    events, lost = len(done.seen.events), lost_events(done.stderr)
    assert lost > 0, done.stderr
    assert events + lost >= 200_000


@pytest.mark.parametrize("size", ["4k", "36k", "100k"])
def test_a_full_journal_directory_loses_counted_events(
    harm: Harm, small_disk: Callable[[str, str], Path], size: str
) -> None:
    done = harm(*DD, env={"TAILRACE_JOURNAL_DIR": str(small_disk("journals", size))})
    events, lost = len(done.seen.events), lost_events(done.stderr)
    assert events + lost >= 200_000 or "journal" in done.stderr, done.stderr


def test_a_run_directory_that_is_removed_in_the_middle(harm: Harm) -> None:
    script = 'dd if=/dev/zero of=out bs=1 count=50000 status=none; rm -rf "$RUN_DIR"/trace; cat given > copied'
    done = harm("bash", "-c", script, env={"RUN_DIR": str(harm.run)})
    assert lost_events(done.stderr) > 0 or "can't be written" in done.stderr, done.stderr


def test_a_limit_on_file_sizes_is_not_hit_by_the_tracer(harm: Harm) -> None:
    script = "ulimit -f 40; dd if=/dev/zero of=/dev/null bs=1 count=200000 status=none; echo $?; cat given > copied"
    assert harm("bash", "-c", script).stdout == "0\n"


def test_a_limit_on_descriptors(harm: Harm) -> None:
    code = "import os\ntry:\n  [os.open('given', 0) for _ in range(99)]\nexcept OSError as e: n = e.errno\nprint(n)"
    script = f'ulimit -n 40; "{sys.executable}" -c "{code}"'
    assert harm("bash", "-c", script).stdout == "24\n"


def test_a_socket_server_among_children(harm: Harm) -> None:
    code = (
        "import os, socket; a, b = socket.socketpair(); pid = os.fork()\n"
        "if pid == 0: a.close(); b.sendall(b'x' * 100000); os._exit(0)\n"
        "b.close(); n = 0\nwhile d := a.recv(65536): n += len(d)\nprint(n, os.waitpid(pid, 0)[1])"
    )
    assert harm(sys.executable, "-c", code).stdout == "100000 0\n"


def test_a_stopped_process_goes_on(harm: Harm) -> None:
    script = f"cat < given > copied & p=$!; kill -{signal.SIGSTOP.value} $p; kill -CONT $p; wait $p; echo $?"
    harm("bash", "-c", script).check_written("copied")
