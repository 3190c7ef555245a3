"""What the wheel carries beside tailrace's own files has its licence in it, and what the build downloads has a hash."""

import re
from importlib.metadata import distribution
from pathlib import Path

from tailrace.installation import PACKAGE

ROOT = Path(__file__).parents[2]
OWN = re.compile(r"(lib)?tailrace[-.].*")


def test_every_bundled_library_has_its_licence_and_source() -> None:
    bundled = {file.name for file in (PACKAGE / "lib").glob("*.so*") if not OWN.fullmatch(file.name)}
    rows = [line for line in (ROOT / "core/licenses/README.md").read_text().splitlines() if line.startswith("| ")]
    for name in sorted(bundled):
        row = next((row for row in rows if f"`tailrace/lib/{name}`" in row), None)
        assert row is not None, name
        assert "https://" in row, row
    assert bundled, "the library compresses with ISA-L or attaches with GOTCHA"


def test_the_distribution_has_the_licences_that_its_list_names() -> None:
    shipped = {Path(file).name for file in distribution("tailrace").files or () if "licenses" in Path(file).parts}
    named = set(re.findall(r"`([\w.-]+\.txt)`", (ROOT / "core/licenses/README.md").read_text()))
    assert len(named) == 4
    assert named | {"LICENSE"} <= shipped


def test_the_build_takes_one_version_by_its_hashes() -> None:
    text = re.sub(r"#.*", "", (ROOT / "core/cmake/gotcha-wheel.txt").read_text()).replace("\\\n", " ")
    (requirement,) = (line for line in text.splitlines() if line.strip())
    assert re.fullmatch(r"dftracer==[\d.]+( +--hash=sha256:[0-9a-f]{64})+\s*", requirement)
    assert "--require-hashes" in (ROOT / "core/cmake/FindGotchaLibrary.cmake").read_text()
