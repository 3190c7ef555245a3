"""What foreign suites have in common: results of tests, untraced and traced, and the table of what differs.

A unit is what is run at once, untraced and traced; a group of units is a row. A unit whose results differ is run again
in both ways, up to `rounds` times: what differs each time is named, and what differs once depends on the moment.

`foreign.py` and `flux_core.py` say what a unit runs.
"""

import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

TAP = re.compile(r"^(?P<result>ok|not ok) (?P<test>\d+ (?:- )?.*?)(?P<note> # (?:skip|SKIP|TODO).*)?$", re.MULTILINE)
"""A line of the Test Anything Protocol, as sharness and git's tests print it."""
_WORDS = {
    "ok": ("ok", "pass", "tpass", "xfail"),
    "skipped": ("skip", "skipped", "ignore", "tconf"),
}
_ADDRESS = re.compile(r"\b0x[0-9a-f]+\b")
_FOREIGN = ("FLUX_", "TAILRACE_", "LD_PRELOAD", "SLURM_", "PMI_", "PMIX_", "PYTHON", "VIRTUAL_ENV")


@dataclass
class Results:
    """Of one run of a unit: its tests (title -> ok, not ok, skipped), how it ended, how many processes were traced,
    and the causes of what the trace lacks."""

    tests: dict[str, str] = field(default_factory=dict)
    end: str = ""
    traced: int = 0
    lost: frozenset[str] = frozenset()

    def count(self, result: str) -> int:
        """How many tests have this result."""
        return sum(one == result for one in self.tests.values())

    def differences(self, other: "Results") -> dict[str, str]:
        """Test -> how it ended here and there."""
        found = {
            name: f"{self.tests.get(name, 'missing')}, traced {other.tests.get(name, 'missing')}"
            for name in dict.fromkeys([*self.tests, *other.tests])
            if self.tests.get(name) != other.tests.get(name)
        }
        return found if found or self.end == other.end else {"the end": f"{self.end}, traced {other.end}"}


@dataclass(frozen=True)
class Unit:
    """A name, and what runs it: traced if its argument is true."""

    name: str
    run: Callable[[bool], Results]


@dataclass
class Row:
    """The sums of a group. `once`: tests that differed, but not each time."""

    units: int = 0
    tests: int = 0
    ok: int = 0
    traced_ok: int = 0
    differ: int = 0
    once: int = 0
    processes: int = 0
    lossy: int = 0

    def add(self, other: "Row") -> None:
        """Adds the other's sums."""
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)

    def text(self, name: str) -> str:
        """A line of the table."""
        return f"{name:38}" + "".join(f"{value:10}" for value in vars(self).values())


HEADING = "".join(
    f"{word:>10}" for word in ("units", "tests", "ok", "traced ok", "differ", "once", "processes", "lossy")
)
"""`lossy`: units whose trace lacks something; the causes are below the table."""


def table(what: str, groups: Iterable[tuple[str, Iterable[Unit]]], rounds: int) -> int:
    """Runs all units. Prints a row for each group, then what differed each time; the exit code is 1 if anything did."""
    # A shell's background job ignores them, and so would the suites.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
    print(f"{what:38}{HEADING}", flush=True)
    named: dict[str, str] = {}
    notes: dict[str, list[str]] = {}
    total, rows = Row(), 0
    for name, units in groups:
        row = Row()
        for unit in units:
            found, lasting, causes = compare(unit, rounds)
            row.add(found)
            whole = ": ".join(filter(None, (name, unit.name)))
            for note in [f"lost ({cause})" for cause in sorted(causes)] + ["differed once"] * bool(found.once):
                notes.setdefault(note, []).append(whole)
            named.update({f"{whole}: {test}": how for test, how in lasting.items()})
        print(row.text(name), flush=True)
        total.add(row)
        rows += 1
    print(total.text(f"{rows} rows"))
    for note, where in notes.items():
        print(f"{note}: {', '.join(where)}")
    for test, how in named.items():
        print(f"{test}: {how}")
    return 1 if named else 0


def compare(unit: Unit, rounds: int) -> tuple[Row, dict[str, str], frozenset[str]]:
    """Runs a unit in both ways: its row, test -> how it differed each time, the causes of its losses."""
    plain, traced = unit.run(False), unit.run(True)
    first = plain.differences(traced)
    lasting = first
    for _ in range(1, rounds):
        if lasting:
            again = unit.run(False).differences(unit.run(True))
            lasting = {test: how for test, how in lasting.items() if test in again}
    ok, traced_ok = plain.count("ok"), traced.count("ok")
    once = len(first) - len(lasting)
    row = Row(1, len(plain.tests), ok, traced_ok, len(lasting), once, traced.traced, bool(traced.lost))
    return row, lasting, traced.lost


def parsed(pattern: re.Pattern[str], text: str) -> dict[str, str]:
    """The tests in a suite's output, by a pattern with the groups `test`, `result` and, optionally, `note`, which only
    a skipped test has."""
    tests: dict[str, str] = {}
    for match in pattern.finditer(text):
        found = match.groupdict()
        word = (found["result"] or "").lower()
        result = next((one for one, words in _WORDS.items() if word in words), "not ok")
        note_result(tests, found["test"], "skipped" if found.get("note") else result)
    return tests


def note_result(tests: dict[str, str], name: str, result: str) -> None:
    """Adds a test. Addresses in its name, which differ in each process, are left out; a name that is there already gets
    a number."""
    name = _ADDRESS.sub("0x", name).strip()
    same = (f"{name} ({number})" for number in count(2))
    tests[name if name not in tests else next(one for one in same if one not in tests)] = result


def environment() -> dict[str, str]:
    """Ours, without what would reach the suite from this Python, from tailrace or from a manager's job."""
    here = {key: value for key, value in os.environ.items() if not key.startswith(_FOREIGN)}
    return {**here, "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"}


def run_words(words: Sequence[str], where: Path, settings: Mapping[str, str], output: Path, timeout_s: float) -> str:
    """Runs a command in a session of its own, its output in a file; how it ended. Its group is killed if it isn't over
    in time, or if we are interrupted."""
    with (
        output.open("w") as log,
        subprocess.Popen(
            words, cwd=where, env=settings, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        ) as process,
    ):
        try:
            code = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return f"not over after {timeout_s:g} s"
        except KeyboardInterrupt:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise
    # As `tailrace run` and a shell say it.
    return f"exit code {code if code >= 0 else 128 - code}"
