"""Programs that are started where the kernel's limits leave no room for the settings: they run, and are named."""

import sys

import pytest

import tailrace
from support.harm import Harm
from tailrace.analyzer.store import ledger

FITS = """
import os, subprocess, sys
how = sys.argv[1]

def run(count, program="/bin/true", *first):
    words = [program, *first, *["x" * 11] * count]
    if how == "posix_spawn":
        return os.waitpid(os.posix_spawn(program, words, os.environ), 0)
    if how == "vfork":
        return subprocess.run(words, check=True)
    child = os.fork()
    if child == 0:
        try:
            os.execve(program, words, os.environ)
        except OSError as error:
            os._exit(error.errno)
    if status := os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
        raise OSError(status, "")

def most(*command):
    fits, fails = 0, 4_000_000
    while fails - fits > 1:
        middle = (fits + fails) // 2
        try:
            run(middle, *command)
            fits = middle
        except OSError:
            fails = middle
    return fits

print(most())
run(most("/bin/sh", "-c", "cat given > copied"), "/bin/sh", "-c", "cat given > copied")
"""


@pytest.mark.parametrize("how", ["posix_spawn", "vfork", "execve"])
def test_a_command_line_that_just_fits_is_executed_and_its_program_named(harm: Harm, how: str) -> None:
    done = harm(sys.executable, "-c", FITS, how)
    causes = set(tailrace.open(done.run).coverage["cause"])
    assert any(cause.endswith(ledger.WORDS["too_long"]) for cause in causes), causes
    words = {event["args"].get("untraced") for event in done.seen.named("posix_spawn", "vfork", "execve")}
    assert "too_long" in words


LIMITED = "ulimit -s {}; exec sh -c '/bin/cat given; /bin/echo \"$@\"; echo rc $?' x {}"


@pytest.mark.parametrize("kib", [24, 28, 32, 64, 128])
def test_a_limited_stack_is_enough_for_what_it_is_enough_untraced(harm: Harm, kib: int) -> None:
    done = harm("bash", "-c", LIMITED.format(kib, "a b c"))
    named = any(cause.endswith(ledger.WORDS["small_stack"]) for cause in tailrace.open(done.run).coverage["cause"])
    assert named == (kib < 32)


NO_FILES = """
import os, resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[1]), 64))
os.execv(sys.argv[2], sys.argv[2:])
"""


@pytest.mark.parametrize("files", [0, 3, 4])
def test_a_program_that_may_open_no_library_says_what_it_says_untraced(harm: Harm, files: int) -> None:
    done = harm(sys.executable, "-c", NO_FILES, str(files), "/bin/cat", "given", same_stderr=True)
    named = any(cause.endswith(ledger.WORDS["no_descriptor"]) for cause in tailrace.open(done.run).coverage["cause"])
    assert named == (files < 4)
