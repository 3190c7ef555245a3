"""Man pages and shell completion: what is shipped is what the commands generate, and a shell can use it."""

import os
import shutil
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
        (("e",), ["env", "export"]),
        (("show", "ta"), ["task"]),
        (("ta",), ["tag", "task"]),
        (("flux", "col"), ["collect"]),
        (("export", "run", "--to", "p"), ["perfetto", "prov"]),
        (("query", "--sta"), ["--stage", "--start"]),
        (("compare", "--fa"), ["--fail-on"]),
    ],
)
def test_bash_completes_commands_options_and_choices(words: tuple[str, ...], expected: list[str]) -> None:
    assert complete(*words) == expected


def offered(shell: str, script: str) -> list[str]:
    """The lines that the shell prints for a script, with the shipped completion and this `tailrace` at hand."""
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"no {shell} here")
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    options = {"fish": "--no-config", "zsh": "-f"}
    done = subprocess.run(
        [program, options[shell], "-c", script], env=env, capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout.splitlines()


def test_fish_completes_with_whole_help_texts() -> None:
    place = SHARE / "fish" / "vendor_completions.d"
    script = f"set fish_complete_path '{place}' $fish_complete_path; complete --do-complete 'tailrace %s'"
    assert [line.split("\t")[0] for line in offered("fish", script % "e")] == ["env", "export"]
    assert offered("fish", script % "que") == [
        "query\tPrint totals of events by stage, task, path or time, or the events."
    ]
    assert offered("fish", script % "export run --to pe") == ["perfetto"]


# A real terminal: zsh completes only in its line editor.
ZSH = r"""
zmodload zsh/zpty
zpty -b shell zsh -f
zpty -w shell "PS1=ready; fpath=('%s' \$fpath); autoload -Uz compinit && compinit -u -D; PS1='>'"
zpty -w -n shell $'tailrace %s\t'
zpty -w shell $'\C-a#\C-e'
zpty -w shell exit
zpty -r -m shell seen '*tailrace %s*'
print -r -- "$seen"
"""


@pytest.mark.parametrize(("words", "expected"), [("que", "query"), ("export run --to pe", "export run --to perfetto")])
def test_zsh_completes_commands_and_choices(words: str, expected: str) -> None:
    script = ZSH % (SHARE / "zsh" / "site-functions", words, expected)
    assert any(f"tailrace {expected}" in line for line in offered("zsh", script))


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
    from tailrace.cli.main import SHOWN, group

    shown = {f"show-{name}": line for name, line in SHOWN.items()}
    for name, (_, text) in {**group.listed, **shown}.items():
        page = (SHARE / "man" / "man1" / f"tailrace-{name}.1").read_text()
        section = page.split(".SH NAME\n")[1].split("\n.SH")[0].replace("\\-", "-")
        assert section == f"tailrace-{name} - {text.rstrip('.')}"
