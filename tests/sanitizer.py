"""Running the tests with a core that is built with a sanitizer.

    TAILRACE_SANITIZE=address pytest tests/integration     # AddressSanitizer and UndefinedBehaviorSanitizer
    TAILRACE_SANITIZE=thread pytest tests/integration      # ThreadSanitizer

The programs under test are what they always are; the sanitizer's runtime is preloaded into them traced and untraced, so
that the two still compare. Any report of any process fails the test.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CHOSEN = os.environ.get("TAILRACE_SANITIZE", "")
if CHOSEN not in ("", "address", "thread"):
    raise ValueError(f"TAILRACE_SANITIZE is {CHOSEN!r}: address or thread")

_FLAGS = {"address": "address,undefined", "thread": "thread"}
_RUNTIMES = {"address": "libasan.so", "thread": "libtsan.so"}
_SET = ("TAILRACE_CORE_LIBRARY", "TAILRACE_SANITIZER_REPORTS", "LD_PRELOAD")
_OPTIONS = {"address": ("ASAN_OPTIONS", "UBSAN_OPTIONS"), "thread": ("TSAN_OPTIONS",)}

# What a sanitizer's runtime makes of a test's premise, by a pattern of the test's name.
_OBSTACLES: dict[str, list[tuple[str, str]]] = {
    "": [],
    "address": [
        ("test_fork_while_threads_do_io", "forked while a thread allocates, a child hangs in libasan, untraced too"),
        ("test_small_stacks_are_enough.handler", "AddressSanitizer's frames don't fit the stack of 8 KiB"),
        ("waiter_is_cancelled", "the frames that a cancelled thread leaves stay poisoned"),
        ("full_disk|full_journal|limit_on_file_sizes|summed_up|kernels.split", "libasan's aligned_alloc refuses dd"),
        ("test_valgrind", "libasan's shadow memory doesn't fit into valgrind"),
        ("test_gdb", "gdb itself takes minutes with libasan preloaded"),
        ("deepbind", "libasan refuses RTLD_DEEPBIND"),
        ("without_the_library", "the jail has no libasan"),
        ("test_env_traces", "LD_PRELOAD holds the sanitizer's runtime too"),
    ],
    "thread": [
        ("deepbind", "libtsan refuses RTLD_DEEPBIND"),
        ("threads_may_do_io.many", "a thousand threads take minutes with libtsan, untraced too"),
        ("taken_late", "libtsan crashes in POSIX aio, untraced too"),
        # A program that clears its environment drops libtsan's preload, and it can't be loaded second.
        ("every_exec_keeps|empty_environment|became_of_environ", "without libtsan preloaded the core can't start"),
        ("test_valgrind|test_gdb", "libtsan runs in neither"),
        ("without_the_library", "the jail has no libtsan"),
        ("test_env_traces", "LD_PRELOAD holds the sanitizer's runtime too"),
    ],
}


def cmake_flags() -> list[str]:
    """What the core is configured with."""
    return [f"-DTAILRACE_SANITIZE={_FLAGS[CHOSEN]}"] if CHOSEN else []


def obstacle(test: str) -> str | None:
    """Why this test can't hold under the sanitizer, or None."""
    return next((reason for pattern, reason in _OBSTACLES[CHOSEN] if re.search(pattern, test)), None)


def _runtime() -> str:
    compiler = shutil.which("c++") or "c++"
    command = [compiler, f"-print-file-name={_RUNTIMES[CHOSEN]}"]
    found = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    return str(Path(found).resolve())


def install(library: Path) -> None:
    """From here on `tailrace run` and its like preload this library, behind the sanitizer's runtime."""
    os.environ["TAILRACE_CORE_LIBRARY"] = str(library)
    os.environ["LD_PRELOAD"] = _runtime()


def variables(preload: str = "") -> dict[str, str]:
    """What a command needs in its environment for that; `preload` is what it preloads itself."""
    if not CHOSEN:
        return {}
    kept = {name: os.environ[name] for name in (*_SET, *_OPTIONS[CHOSEN])}
    return {**kept, "LD_PRELOAD": ":".join(filter(None, [kept["LD_PRELOAD"], preload]))}


def _defaults(name: str) -> str:
    """The options that the core's sanitizer.cc gives the runtime, for programs that are run without the core."""
    source = (Path(__file__).parent.parent / "core/src/sanitizer.cc").read_text()
    function = source.split(f"__{name.lower().removesuffix('_options')}_default_options() {{")[1].split("}")[0]
    return "".join(re.findall(r'"([^"]*)"', function))


@contextmanager
def reports_in(directory: Path) -> Iterator[None]:
    """Every report becomes a file in the directory."""
    for name in _OPTIONS[CHOSEN]:
        os.environ[name] = _defaults(name)
    os.environ["TAILRACE_SANITIZER_REPORTS"] = f"{directory}/{CHOSEN}"
    # The directory of a test of another user.
    directory.chmod(0o777)
    yield
