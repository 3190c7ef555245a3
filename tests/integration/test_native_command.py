"""The `tailrace` command as an executable: what it does itself, what it leaves to Python, where it may lie.

What a run is, whoever starts it, is test_cli_run.py's.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import unicodedata
import zlib
from functools import partial
from pathlib import Path

import pytest

from support import trace_writer as tw
from support.commands import TAILRACE
from tailrace.analyzer.store import missing
from tailrace.base.text import visible

COMMAND = Path(TAILRACE[0])
PYTHON = [sys.executable, "-m", "tailrace.cli.main"]


def called(words: list[str], cwd: Path, **options: object) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(words, cwd=cwd, capture_output=True, text=True, timeout=60, check=False, **options)


def described(run: Path) -> dict[str, object]:
    return dict(json.loads((run / "run.json").read_text()))


def without_python(path: Path) -> list[str]:
    """The command in an installation that has nothing but the core: what it hands over fails."""
    (path / "bin").mkdir(parents=True)
    shutil.copy(COMMAND, path / "bin" / "tailrace")
    (path / "tailrace/lib").mkdir(parents=True)
    libraries = next(COMMAND.parent.parent.glob("lib*/python3.*/*-packages/tailrace/lib/libtailrace.so")).parent
    for name in ("libtailrace.so", "libtailrace-plugin.so"):
        (path / "tailrace/lib" / name).symlink_to(libraries / name)
    return [str(path / "bin" / "tailrace")]


SPELLINGS = [
    ["-o", "run", "-t", "stage=a b", "--tag", "task=1", "--detail", "totals", "-q", "--"],
    ["-orun", "-tstage=a b", "--tag=task=0", "--tag=task=1", "--detail=totals", "--quiet"],
    ["--output=run", "--tag=stage=a b", "--tag", "task=1", "-q", "--detail=totals", "--"],
]


def test_a_run_needs_no_python_and_is_what_python_makes_of_it(tmp_path: Path) -> None:
    native = without_python(tmp_path / "there")
    found = []
    for number, options in enumerate(SPELLINGS):
        for how in (native, PYTHON):
            place = tmp_path / f"{number}-{len(how)}"
            place.mkdir()
            command = ["sh", "-c", "exit 3", "--token", "abc", "\u00e9"]
            done = called([*how, "run", *options, *command], place)
            assert (done.returncode, done.stderr) == (3, ""), options
            about = described(place / "run")
            assert about["command"] == ["sh", "-c", "exit 3", "--token", "[redacted]", "\u00e9"]
            versions = about.pop("versions")
            assert isinstance(versions, dict) and ("python" in versions) == (how == PYTHON)
            # Others may mount something on this machine meanwhile, and what a record costs is measured.
            assert about.pop("mounts")
            time = about["time"]
            assert isinstance(time, dict) and time.pop("record_ns") >= 0
            assert about.pop("directory") == str(place / "run")
            keys = [key for key in about if key not in {"run_id", "created", "clock_error_ns", "cwd"}]
            found.append({key: about[key] for key in keys})
    assert all(one == found[0] for one in found)
    assert found[0]["tags"] == "stage=a%20b,task=1"


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--version"],
        ["run", "--help"],
        ["run"],
        ["run", "-x", "true"],
        ["run", "-o"],
        ["run", "--detail", "most", "true"],
        ["run", "--tag", "Stage=x", "true"],
        ["run", "-qo", "run", "true"],
        ["run", "-o", "~/run", "true"],
        ["run", "-o", b"\xff", "true"],
        ["info", "run"],
    ],
    ids=str,
)
def test_everything_else_is_left_to_python(tmp_path: Path, words: list[str]) -> None:
    """Before anything was done: with no Python there, nothing is."""
    native = without_python(tmp_path / "there")
    work = tmp_path / "work"
    work.mkdir()
    done = called([*native, *words], work)
    assert done.returncode == 1 and not list(work.iterdir())
    assert (
        done.stderr.startswith("tailrace: only `tailrace run` and `tailrace tag` work without") and "pip" in done.stderr
    )
    environment = {**os.environ, "HOME": str(work)}
    ours, python = (called([*how, *words], work, env=environment) for how in ([str(COMMAND)], PYTHON))
    assert (ours.returncode, ours.stdout) == (python.returncode, python.stdout)
    if "run" not in os.listdir(work):
        assert ours.stderr == python.stderr


def test_completion_a_refused_journal_directory_and_a_store_are_left_to_python(tmp_path: Path) -> None:
    native = without_python(tmp_path / "there")
    for variables in ({"_TAILRACE_COMPLETE": "bash_complete"}, {"TAILRACE_JOURNAL_DIR": "x"}, {"TAILRACE_STORE": "x"}):
        done = called([*native, "run", "-o", "run", "true"], tmp_path, env={**os.environ, **variables})
        assert done.returncode == 1 and "without tailrace's Python part" in done.stderr
        assert not (tmp_path / "run").exists()
    refused = called(
        [*TAILRACE, "run", "-o", "run", "true"], tmp_path, env={**os.environ, "TAILRACE_JOURNAL_DIR": "relative"}
    )
    assert refused.returncode == 2 and "TAILRACE_JOURNAL_DIR is relative" in refused.stderr


def test_a_link_to_the_command_is_the_command(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").symlink_to(COMMAND)
    link = str(tmp_path / "elsewhere")
    done = called([link, "run", "-o", "run", "true"], tmp_path)
    assert " of 1 process, " in done.stderr and "python" not in described(tmp_path / "run")["versions"]  # type: ignore[operator]
    assert called([link, "--version"], tmp_path).stdout.startswith("tailrace, version")


def test_the_command_has_the_signals_of_our_caller(tmp_path: Path) -> None:
    """What a closed pipe would end us by is ignored here only."""
    words = [*TAILRACE, "run", "-q", "-o", "run", "--", "grep", "-E", "^Sig(Blk|Ign):", "/proc/self/status"]
    pipe = 1 << (signal.SIGPIPE - 1)
    for action, ignored in ((signal.SIG_DFL, 0), (signal.SIG_IGN, pipe)):
        done = called(words, tmp_path, preexec_fn=partial(signal.signal, signal.SIGPIPE, action), restore_signals=False)
        lines = dict(line.split() for line in done.stdout.splitlines())
        assert int(lines["SigBlk:"], 16) == 0 and int(lines["SigIgn:"], 16) & pipe == ignored


def test_it_runs_with_its_standard_streams_closed(tmp_path: Path) -> None:
    """Their numbers are those of its own files then, which no message may go to."""
    script = f"{COMMAND} run -o run -- sh -c 'exit 4' <&- >&- 2>&-"
    assert called(["sh", "-c", script], tmp_path).returncode == 4
    assert described(tmp_path / "run")["command"] == ["sh", "-c", "exit 4"]
    assert not [path for path in (tmp_path / "run").rglob("*") if path.is_file() and b"tailrace: " in path.read_bytes()]


def test_no_name_acts_on_the_terminal(tmp_path: Path) -> None:
    """The first and last character of each range that Python does not print, and their neighbours."""
    printed = [chr(code).isprintable() or unicodedata.category(chr(code)) == "Cn" for code in range(sys.maxunicode + 1)]
    ends = [code for code in range(1, sys.maxunicode) if printed[code] != printed[code - 1]]
    around = sorted({code for end in ends for code in (end - 1, end)})
    characters = [chr(code) for code in around if unicodedata.category(chr(code)) not in {"Cs", "Cn"} and code > 0]
    names = ["".join(characters[at : at + 40]).replace("/", "") for at in range(0, len(characters), 40)]
    (tmp_path / "file").write_text("")
    for name in names:
        done = called([*TAILRACE, "run", "-o", f"{tmp_path}/file/a{name}b", "true"], tmp_path)
        why = "Not a directory: give one that you can write to"
        shown = visible(f"tailrace: can't use {tmp_path}/file/a{name}b as a run directory: {why}")
        assert done.stderr == shown.replace("\\n", " ") + "\n" or done.stderr == " ".join(shown.split()) + "\n", name
    command = os.fsencode(COMMAND)
    done = called([command, b"run", b"-q", b"--", b"./\xff\x1b"], tmp_path)  # type: ignore[list-item]
    assert done.stderr == "tailrace: ./\\udcff\\x1b: command not found\n"


def test_a_restart_leaves_what_is_in_run_json(tmp_path: Path) -> None:
    """Whatever else has written there, and however it is laid out."""
    (tmp_path / "run/trace").mkdir(parents=True)
    kept = '"format": 1, "more": {"a": [1.50, "]}\\"", null]}, "name": "\\u00e9\u00e9"'
    for text in (f"{{{kept}}}", f'{{{kept}, "restarts": [ ]}}\n', f'{{"restarts":[{{"host":"x"}}\n], {kept}\n}}'):
        (tmp_path / "run/run.json").write_text(text)
        before = json.loads(text)
        for _ in range(2):
            done = called([*TAILRACE, "run", "-q", "-o", "run", "true"], tmp_path)
            assert (done.returncode, done.stderr) == (0, "")
        after = described(tmp_path / "run")
        restarts = after.pop("restarts")
        assert isinstance(restarts, list)
        assert restarts[: len(before.get("restarts", []))] == before.pop("restarts", [])
        assert [one["command"] for one in restarts[-2:]] == [["true"], ["true"]]
        assert after == before and kept in (tmp_path / "run/run.json").read_text()


def test_a_file_that_a_process_wrote_itself_is_in_the_manifest_once(tmp_path: Path) -> None:
    """As by one that the sealer of another node does not serve."""
    variables = json.loads(called([*TAILRACE, "env", "-o", "run", "--format", "json"], tmp_path).stdout)
    script = "for ((i = 0; i < 5000; i++)); do : < /dev/null; done"
    subprocess.run(["bash", "-c", script], env={**os.environ, **variables}, check=True, timeout=60)
    (own,) = (path.name for path in (tmp_path / "run/trace").glob("*-*-*.pfw.gz"))
    for _ in range(2):
        assert called([*TAILRACE, "run", "-q", "-o", "run", "true"], tmp_path).returncode == 0
    assert called([*TAILRACE, "seal", "run"], tmp_path).returncode == 0
    lines = [line for path in (tmp_path / "run/manifest").glob("*.jsonl") for line in path.read_text().splitlines()]
    named = [line for line in lines if own in line]
    assert len(named) == 1 and f'{{"file":"{own}"}}'[:-1] == named[0].split(',"crc"')[0]
    covered, _, crc = named[0].partition(',"crc":"')
    assert crc == f'{zlib.crc32(covered.encode()):08x}"}}'


def test_half_a_line_of_a_manifest_does_not_spoil_the_next_one(tmp_path: Path) -> None:
    """As a full disk leaves one: the file of a node and that of a process are known all the same."""
    (tmp_path / "block").write_bytes(tw.block([tw.event()]))
    words = [*TAILRACE, "run", "-q", "-o", "run", "--", "cp", "block", "run/trace"]
    for number in (1, 2):
        assert called([*words[:-1], f"run/trace/h-{number}-0.pfw.gz"], tmp_path).returncode == 0
        (manifest,) = (tmp_path / "run/manifest").glob("*.jsonl")
        with manifest.open("a") as file:
            file.write('{"file":"')
    assert called(words, tmp_path).returncode == 0
    lines = manifest.read_bytes().splitlines()
    known = {row[0] for row in map(missing.parsed, lines) if row is not None}
    assert known >= {"h-1-0.pfw.gz", "h-2-0.pfw.gz"} and lines.count(b'{"file":"') == 2
    assert missing.parsed(lines[-1]) is not None


@pytest.mark.parametrize("torn", [2, 5000], ids=["shorter than the next", "longer than the next"])
def test_a_block_in_the_place_of_a_torn_one_is_in_the_summary(tmp_path: Path, torn: int) -> None:
    """A sealer that was killed leaves half a block in a node's file, where the next one goes on."""
    words = [*TAILRACE, "run", "-o", "run", "true"]
    first = called(words, tmp_path).stderr
    (path,) = (tmp_path / "run/trace").iterdir()
    with path.open("ab") as file:
        file.write(tw.block([tw.event(offset=7919 * number) for number in range(torn)])[:-10])
    again = called(words, tmp_path).stderr
    assert again == first and "nothing lost" in first
    assert list((tmp_path / "run/trace").iterdir()) == [path]


def test_numbers_in_headers_are_added_up_to_the_largest(tmp_path: Path) -> None:
    most = {"read": 2**53 - 1, "totals": [0, 2**63 - 1]}
    (tmp_path / "block").write_bytes(tw.block([tw.event()], most) * 3)
    done = called([*TAILRACE, "run", "-o", "run", "sh", "-c", "cp block run/trace/h-1-0.pfw.gz"], tmp_path)
    assert f"tailrace: {2**63 - 1:,} events of " in done.stderr, done.stderr


@pytest.mark.parametrize("fact", [{"errno": 1.5}, {"errno": 1, "dir": 3}], ids=str)
def test_nothing_in_a_trace_costs_the_exit_code(tmp_path: Path, fact: dict[str, object]) -> None:
    """A header that the traced program wrote."""
    (tmp_path / "block").write_bytes(tw.block([tw.event()], {"process": {"no_journal": fact}}))
    done = called([*TAILRACE, "run", "-o", "run", "sh", "-c", "cp block run/trace/h-1-0.pfw.gz; exit 3"], tmp_path)
    assert done.returncode == 3 and "tailrace: exit code 3, " in done.stderr
    assert "1 process recorded nothing (no journal: its directory: " in done.stderr
