#!/usr/bin/env python3
"""How much there is to know: product files and lines by room, words of docs, and what a question runs through.

    python tools/counts.py               tailrace installed, any branch; compare two by diff

Lines are those of git's files, also blank ones and comments. What a question runs through: the Python files of the
package with a function that is called, and the modules that are imported, of the command on `tailrace demo`'s run.
"""

import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("core", "analyzer", "cli", "integrations", "flux-plugin", "parsl-plugin", "slurm-plugin")
CODE = {".py", ".cc", ".c", ".h", ".s", ".def", ".js", ".css", ".html", ".mk", ".cmake", ".in", ".map", ""}
MADE = {"findings.md", "tables.md", "cookbook.md", "conformance.md"}
"""Pages that are made from the code."""
QUESTIONS = {
    "info": ["info"],
    "query by stage": ["query", "--by", "stage", "--agg", "sum:size"],
    "a file's history": ["file", "out/sorted.txt"],
    "report": ["report"],
}
RUNNER = """
import sys
from tailrace.cli.main import main
ran = set()
def seen(frame, event, _):
    name = frame.f_code.co_filename
    if event == "call" and any(part in name for part in ROOMS):
        ran.add(name)
sys.argv = ["tailrace", *sys.argv[1:]]
# What runs when modules are imported is no part of the question.
for profile in (None, seen):
    sys.setprofile(profile)
    try:
        main()
    except SystemExit:
        pass
sys.setprofile(None)
print(len(ran), sum(name.split(".")[0] == "tailrace" for name in sys.modules), file=sys.stderr)
"""


def product() -> None:
    """Files, lines and files below 50 lines of each room."""
    listed = subprocess.run(["git", "ls-files", *ROOMS], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    files, lines, small = Counter[str](), Counter[str](), Counter[str]()
    for name in listed.splitlines():
        path = ROOT / name
        if path.suffix not in CODE or not path.is_file():
            continue
        room, count = name.split("/")[0], path.read_bytes().count(b"\n")
        files[room] += 1
        lines[room] += count
        small[room] += count < 50
    print(f"{'room':14} {'files':>6} {'below 50':>8} {'lines':>8}")
    for room in ROOMS:
        print(f"{room:14} {files[room]:6} {small[room]:8} {lines[room]:8}")
    print(f"{'all':14} {files.total():6} {small.total():8} {lines.total():8}")


def docs() -> None:
    """Words of the pages that are written, and of those that are made."""
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    words = {page.name: len(page.read_text(encoding="utf-8").split()) for page in pages}
    made = sum(count for name, count in words.items() if name in MADE)
    print(f"words of docs: {sum(words.values()) - made} written, {made} made from the code")


def questions() -> None:
    """Files run through and modules imported, of each question."""
    rooms = tuple(f"/{room}/" for room in (*ROOMS, "tailrace"))
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        script = "mkdir out; seq 1000 >out/numbers.txt; sort out/numbers.txt >out/sorted.txt"
        subprocess.run(["tailrace", "run", "-q", "-o", run, "--", "sh", "-c", script], cwd=folder, check=True)
        for name, (command, *words) in QUESTIONS.items():
            code = RUNNER.replace("ROOMS", repr(rooms))
            line = [sys.executable, "-c", code, command, str(run), *words]
            told = subprocess.run(line, cwd=folder, capture_output=True, text=True, check=False).stderr
            ran, imported = told.split()[-2:]
            print(f"{name}: {ran} files run through, {imported} modules imported")


if __name__ == "__main__":
    product()
    docs()
    questions()
