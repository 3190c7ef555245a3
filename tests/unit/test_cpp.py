"""The C++ unit tests (cpp/*.cc), run as pytest tests: one a suite, with the number of its cases.

$TAILRACE_CPP_TESTS names a built binary; else it is built (../conftest.py).
"""

import json
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

CASE = re.compile(r"^TEST(?:_F|_P)?\((\w+), (\w+)\)", re.MULTILINE)
SOURCES = sorted((Path(__file__).parent / "cpp").glob("*.cc"))
SUITES = sorted({suite for source in SOURCES for suite, _ in CASE.findall(source.read_text())})


@pytest.fixture(scope="module")
def binary(request: pytest.FixtureRequest) -> Path:
    """The test binary."""
    given = os.environ.get("TAILRACE_CPP_TESTS")
    return Path(given) if given else Path(request.getfixturevalue("cpp_tests"))


@pytest.mark.parametrize("suite", SUITES)
def test_suite(suite: str, binary: Path, tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    report = tmp_path / "report.json"
    command = [str(binary), f"--gtest_filter={suite}.*", f"--gtest_output=json:{report}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    counted = json.loads(report.read_text()) if report.exists() else {"tests": 0, "failures": 0}
    record_property("cases", counted["tests"])
    print(f"{suite}: {counted['tests']} cases, {counted['failures']} failed")
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    expected = sum(found == suite for source in SOURCES for found, _ in CASE.findall(source.read_text()))
    assert counted["tests"] == expected
