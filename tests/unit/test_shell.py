"""Commands offered for copying: every shell makes the name of them that they were made of."""

import shutil
import subprocess

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tailrace.analyzer.util import shell

SHELLS = [name for name in ("sh", "dash", "bash", "ksh", "zsh") if shutil.which(name)]
NAMES = (
    *("", " ", "-n", "--path", "~", "a b", "it's", 'say "no"', "$(touch /tmp/x)", "`id`", "!!", "#x", "*?[a]", "a\\b"),
    *("a\nb", "a\n", "\n", "x'\n\n", "a\x1b[31m", "\x07'; id; '", "\\'$(id)\\'\x01", "100%\x01", "-\x01", "\x011"),
    *("café", "\u202efdp.exe", "é\u2028'", "a\u00a0b", "😀\x7f"),
)


def read_by(name: str, command: str) -> list[str]:
    """The words of a command, as a shell reads them."""
    done = subprocess.run([name, "-c", f"printf '%s\\0' {command}"], capture_output=True, check=True)
    return done.stdout.decode().split("\0")[:-1]


@pytest.mark.parametrize("name", SHELLS)
def test_each_shell_reads_the_name(name: str) -> None:
    assert read_by(name, shell.join(NAMES)) == list(NAMES)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), min_size=1, max_size=20))
@example(list(NAMES))
def test_any_name_is_one_word_in_the_strictest_shell(names: list[str]) -> None:
    command = shell.join(names)
    assert read_by("sh", command) == names
    assert shell.words(command) == [shell.quoted(name) for name in names]


@pytest.mark.parametrize("name", NAMES)
def test_what_is_copied_is_visible(name: str) -> None:
    assert shell.quoted(name).replace("\n", "").isprintable()


@pytest.mark.parametrize("name", SHELLS)
def test_a_directory_is_no_option(name: str) -> None:
    assert read_by(name, shell.directory("-r")) == ["./-r"] and shell.directory("/a b") == "'/a b'"
