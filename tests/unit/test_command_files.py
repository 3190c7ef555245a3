"""Man pages and shell completion: what is shipped is what the commands generate, and a shell can use it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SHARE = ROOT / "cli" / "share"
# Everything that makes `tailrace report` slow to start.
HEAVY = ("tailrace.analyzer.run", "tailrace.analyzer.store", "pandas", "numpy", "pyarrow", "dask", "rich")


def complete(*words: str) -> list[str]:
    """What bash offers for the last of the words."""
    script = (
        f'. "{SHARE}/bash-completion/completions/tailrace"; complete -p tailrace >&2; COMP_WORDS=("$@"); '
        'COMP_CWORD=$(($# - 1)); _tailrace_completion tailrace; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "--norc", "-c", script, "bash", "tailrace", *words],
        env=env,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "-F _tailrace_completion tailrace" in done.stderr
    return done.stdout.split()


def test_the_files_are_those_that_the_commands_generate() -> None:
    pytest.importorskip("click_man")
    tool = [sys.executable, str(ROOT / "tools" / "command_files.py"), "--check"]
    done = subprocess.run(tool, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("que",), ["query"]),
        (("e",), ["export", "env"]),
        (("flux", "c"), ["collect"]),
        (("export", "run", "--to", "p"), ["perfetto", "prov"]),
        (("query", "--sta"), ["--stage", "--start"]),
        (("compare", "--fa"), ["--fail-on"]),
    ],
)
def test_bash_completes_commands_options_and_choices(words: tuple[str, ...], expected: list[str]) -> None:
    assert complete(*words) == expected


@pytest.mark.parametrize("words", ["tailrace ", "tailrace query --", "tailrace run --", "tailrace flux "])
def test_completion_imports_nothing_heavy(words: str) -> None:
    code = (
        "import atexit, sys\n"
        f"found = lambda: [name for name in {HEAVY} if name in sys.modules]\n"
        "atexit.register(lambda: print('HEAVY', *found(), file=sys.stderr))\n"
        "from tailrace.cli.main import main\nmain()\n"
    )
    request = {"COMP_WORDS": words, "COMP_CWORD": str(len(words.split(" ")) - 1), "_TAILRACE_COMPLETE": "bash_complete"}
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **request}, capture_output=True, text=True, check=False
    )
    assert len(done.stdout.splitlines()) > 1
    assert done.stderr == "HEAVY\n"


def test_a_command_has_the_same_summary_in_the_list_and_on_its_page() -> None:
    from tailrace.cli.main import COMMANDS

    for name, (_, text) in COMMANDS.items():
        page = (SHARE / "man" / "man1" / f"tailrace-{name}.1").read_text()
        section = page.split(".SH NAME\n")[1].split("\n.SH")[0].replace("\\-", "-")
        assert section == f"tailrace-{name} - {text.rstrip('.')}"
