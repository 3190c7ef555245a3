"""What the dynamic linker does for libtailrace.so in every traced process stays small."""

import re
import subprocess

from tailrace import installation


def test_little_is_relocated_and_no_table_filled_when_the_library_is_loaded() -> None:
    library = installation.PACKAGE / "lib" / "libtailrace.so"
    done = subprocess.run(["readelf", "-dW", library], capture_output=True, text=True, check=True)
    tags = dict(re.findall(r"\((\w+)\)\s+(.*)", done.stdout))
    # An address in a table is a relocation, and the table's pages are each process's own.
    assert int(tags["RELACOUNT"]) < 2000
    # The compiler's own, and hooks/process.cc. One more would be a table that code fills, page by page.
    assert int(tags["INIT_ARRAYSZ"].split()[0]) <= 2 * 8
    # An empty part is the program's working directory.
    assert "" not in tags["RUNPATH"].split("[")[1].rstrip("]").split(":")
