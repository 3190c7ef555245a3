"""Running the tests with a core that is built with a sanitizer.

    TAILRACE_SANITIZE=address pytest tests/integration     # AddressSanitizer and UndefinedBehaviorSanitizer
    TAILRACE_SANITIZE=thread pytest tests/integration      # ThreadSanitizer

The programs under test are what they always are; the sanitizer's runtime is preloaded into them traced and untraced, so
that the two still compare. Any report of any process fails the test. For Flux's tests the whole package is built with
the sanitizer: the plugins name the core that lies beside them.

Not seen: accesses of two processes to one journal (ThreadSanitizer); what the kernel writes to by the core's own system
calls (AddressSanitizer); assembly; programs that cleared their environment; guests' jobs of Flux's set-uid IMP.
`dlsym`, `sysconf` and `pthread_getattr_np` are not hooked in such a build, and `vfork` is `fork` under ThreadSanitizer.
"""

import functools
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

CHOSEN = os.environ.get("TAILRACE_SANITIZE", "")
if CHOSEN not in ("", "address", "thread"):
    raise ValueError(f"TAILRACE_SANITIZE is {CHOSEN!r}: address or thread")

_SOURCE = Path(__file__).resolve().parents[2]
_FLAGS = {"address": "address,undefined", "thread": "thread"}
_RUNTIMES = {"address": "libasan.so", "thread": "libtsan.so"}
# A setting of a core with a sanitizer, and so nothing that a traced program would see.
HIDDEN = "TAILRACE_SANITIZER_REPORTS"
_SET = ("TAILRACE_CORE_LIBRARY", HIDDEN, "LD_PRELOAD")
_FRAME = re.compile(r"<null> <null> \((\S*libtailrace\.so)\+(0x[0-9a-f]+)\)")
_OPTIONS: dict[str, tuple[str, ...]] = {"address": ("ASAN_OPTIONS", "UBSAN_OPTIONS"), "thread": ("TSAN_OPTIONS",)}

# What a sanitizer's runtime makes of a test's premise, by a pattern of the test's name.
_OBSTACLES: dict[str, list[tuple[str, str]]] = {
    "": [],
    "address": [
        ("in 400 MB|as_much_of_the_address_space", "libasan's shadow memory takes its part of the address space"),
        ("a_limited_stack", "libasan needs more of it"),
        ("test_flux_multiuser", "Flux's IMP is set-uid, so the shell of a guest's job has no libasan"),
        ("plugins_need_no_cxx_runtime", "they need libasan there"),
        ("test_fork_while_threads_do_io", "forked while a thread allocates, a child hangs in libasan, untraced too"),
        ("test_small_stacks_are_enough.handler", "AddressSanitizer's frames don't fit the stack of 8 KiB"),
        ("waiter_is_cancelled", "the frames that a cancelled thread leaves stay poisoned"),
        ("test_valgrind", "libasan's shadow memory doesn't fit into valgrind"),
        ("test_gdb", "gdb itself takes minutes with libasan preloaded"),
        ("deepbind", "libasan refuses RTLD_DEEPBIND"),
        ("without_the_library", "the jail has no libasan"),
        ("test_env_traces", "LD_PRELOAD holds the sanitizer's runtime too"),
        ("test_a_musl_program|musl-", "libasan, which is preloaded too, keeps programs of musl's from starting"),
        (
            "reads_inside_libc_are_recorded.(locale|stack)|headers_at_their_end",
            "libasan needs sysconf, which OpenBLAS calls too, and pthread_getattr_np to be unhooked",
        ),
        (
            "loaded_by_a_child_are_in_its_account.*(from threads|of a child)",
            "what dlsym finds, which isn't hooked there, shows such a child that it may ask what is loaded",
        ),
        ("in_the_account.said", "malloc_stats is libasan's, which prints it among the reports"),
        (
            "another_ones_filter.*-kill|examined_in_a_fork_too|starter_of_a_confined",
            "libasan's own calls are none that the filter allows, untraced too",
        ),
        (
            "local_library_that_is_loaded|functions_looked_up_by_name",
            "dlsym is not hooked there, and nothing is loaded after",
        ),
    ],
    "thread": [
        ("in 400 MB|as_much_of_the_address_space", "libtsan's shadow memory takes its part of the address space"),
        ("memory_mapped_where_some_was_freed", "libtsan maps there itself"),
        ("a_limited_stack", "libtsan needs more of it"),
        ("test_flux_multiuser", "Flux's IMP is set-uid, so the shell of a guest's job has no libtsan"),
        ("plugins_need_no_cxx_runtime", "they need libtsan there"),
        ("test_fork_while_threads_do_io", "now and then a child hangs in libtsan, untraced too"),
        (
            "test_cancellation|waiter_is_cancelled|wordexp_that_is_cancelled",
            "libtsan gives up on threads cancelled in a call, untraced too",
        ),
        ("system_popen", "libtsan puts off a handler of SIGCHLD, untraced, until its output doesn't come any more"),
        ("process_ends.main_leaves", "libtsan's own thread stays when all others are gone, untraced too"),
        ("an_attached_process", "/proc/self/auxv, read while GOTCHA is loaded, is a quarter of the small account"),
        ("moves-by_number", "in a forked child libtsan's _exit flushes the streams, untraced too"),
        ("small_limits.ulimit -v", "libtsan's shadow memory needs more address space"),
        (
            "not_traced_is_named|untraced_program_is_named.*vfork|vfork_begins_before",
            "vfork, which is fork there, doesn't show what the child became, and the child records",
        ),
        ("test_a_musl_program|musl-", "libtsan, which is preloaded too, keeps programs of musl's from starting"),
        (
            "reads_inside_libc_are_recorded.(locale|stack)|headers_at_their_end",
            "libtsan needs sysconf, which OpenBLAS calls too, and pthread_getattr_np to be unhooked",
        ),
        (
            "loaded_by_a_child_are_in_its_account|test_replay.*nearly_all_bytes",
            "libtsan has a thread in every process; what dlsym finds, which isn't hooked there, shows a child of such"
            " a process that it may ask what is loaded",
        ),
        (
            "another_ones_filter|examined_in_a_fork_too|starter_of_a_confined|6000-errno|refused_to_the_tracer",
            "libtsan's own calls are none that the filter allows, untraced too",
        ),
        ("deepbind", "libtsan refuses RTLD_DEEPBIND"),
        ("threads_may_do_io.many", "a thousand threads take minutes with libtsan, untraced too"),
        ("taken_late|moves-asynchronous", "libtsan crashes in POSIX aio, untraced too"),
        # A program that clears or sets its environment drops libtsan's preload, and it can't be loaded second.
        (
            "every_exec_keeps|empty_environment|change_of_environ|cleared_environment_stay|programs_that_keep_it"
            "|clears_its_environment|propagation_by_environment_is_configured|own_preload_stays_after",
            "without libtsan preloaded the core can't start",
        ),
        ("test_valgrind|test_gdb", "libtsan runs in neither"),
        ("without_the_library", "the jail has no libtsan"),
        ("test_env_traces", "LD_PRELOAD holds the sanitizer's runtime too"),
        (
            "local_library_that_is_loaded|functions_looked_up_by_name",
            "dlsym is not hooked there, and nothing is loaded after",
        ),
    ],
}


def cmake_flags() -> list[str]:
    """What the core is configured with."""
    return [f"-DTAILRACE_SANITIZE={_FLAGS[CHOSEN]}"] if CHOSEN else []


def obstacle(test: str) -> str | None:
    """Why this test can't hold under the sanitizer, or None."""
    return next((reason for pattern, reason in _OBSTACLES[CHOSEN] if re.search(pattern, test)), None)


def _runtime() -> str:
    """The sanitizer's runtime, by its whole path."""
    compiler = shutil.which("c++") or "c++"
    command = [compiler, f"-print-file-name={_RUNTIMES[CHOSEN]}"]
    found = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    return str(Path(found).resolve())


def install(library: Path, reports: Path) -> None:
    """From here on `tailrace run` and its like preload this library, before the sanitizer's runtime.

    Every report becomes a file in the directory `reports`.
    """
    os.environ["TAILRACE_CORE_LIBRARY"] = str(library)
    starter = library.parent.parent / "tests" / "programs" / "sanitizer_starter.so"
    os.environ["LD_PRELOAD"] = f"{starter}:{_runtime()}"
    for name in _OPTIONS[CHOSEN]:
        os.environ[name] = _defaults(name)
    os.environ[HIDDEN] = f"{reports}/{CHOSEN}"
    # The directory of a test of another user.
    reports.chmod(0o777)


@functools.cache
def package(build: Path) -> Path:
    """The package as built with the sanitizer in folders of `build`; children import it from here on."""
    place, flags = build / "package", [f"--config-settings=cmake.define.{flag[2:]}" for flag in cmake_flags()]
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--upgrade", f"--target={place}"]
    command = [*pip, f"--config-settings=build-dir={build / 'package-build'}", *flags, str(_SOURCE)]
    subprocess.run(command, check=True, env=uninstrumented())
    os.environ["PYTHONPATH"] = str(place)
    return place / "tailrace"


def variables(preload: str = "") -> dict[str, str]:
    """What a command needs in its environment for that; `preload` is what it preloads itself."""
    if not CHOSEN:
        return {}
    kept = {name: os.environ[name] for name in (*_SET, *_OPTIONS[CHOSEN])}
    return {**kept, "LD_PRELOAD": ":".join(filter(None, [kept["LD_PRELOAD"], preload]))}


def uninstrumented() -> dict[str, str]:
    """The environment of a program that is to run without the sanitizer's runtime, as it is no part of the test."""
    return {name: value for name, value in os.environ.items() if name != "LD_PRELOAD" or not CHOSEN}


def without_settings(environment: dict[str, str]) -> dict[str, str]:
    """The environment of an untraced program that compares with a traced one's, where the core hides its settings."""
    return {name: value for name, value in environment.items() if name != HIDDEN}


def without_own(listing: str) -> str:
    """What env(1) printed without what only the tests with a sanitizer put there, but for LD_PRELOAD."""
    own = tuple(f"{name}=" for name in _SET if name != "LD_PRELOAD")
    return "".join(line for line in listing.splitlines(keepends=True) if not line.startswith(own))


def _defaults(name: str) -> str:
    """The options that the core's base/sanitizer.cc gives the runtime, for programs that are run without the core."""
    source = (_SOURCE / "core/src/base/sanitizer.cc").read_text()
    function = source.split(f"__{name.lower().removesuffix('_options')}_default_options() {{")[-1].split("}")[0]
    return "".join(re.findall(r'"([^"]*)"', function))


def take_reports() -> list[str]:
    """The reports that were made since, which are removed; the core's addresses in them as functions and lines."""
    reports = []
    for file in sorted(Path(os.environ[HIDDEN]).parent.iterdir()):
        reports.append(_FRAME.sub(_in_words, file.read_text(errors="replace")))
        file.unlink()
    return reports


def _in_words(frame: re.Match[str]) -> str:
    library = os.environ["TAILRACE_CORE_LIBRARY"]
    command = ["addr2line", "-Cfpe", library, frame[2]]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    return f"{done.stdout.strip()} ({frame[0]})"
