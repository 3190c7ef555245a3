"""Names of a run's workflows: no two processes get one name, whenever they ask."""

import subprocess
import sys
from pathlib import Path

from tailrace.integrations.workflow import claimed, unused_name

ASK = """
import sys, time
from pathlib import Path
from tailrace.integrations.workflow import unused_name
print("ready", flush=True)
sys.stdin.readline()
print(unused_name(Path(sys.argv[1]), "w"))
"""


def test_processes_that_ask_in_the_same_instant_get_different_names(tmp_path: Path) -> None:
    words = [sys.executable, "-c", ASK, str(tmp_path)]
    asking = [subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(6)]
    for one in asking:
        assert one.stdout is not None and one.stdout.readline() == "ready\n"
    for one in asking:
        assert one.stdin is not None
        one.stdin.write("\n")
        one.stdin.flush()
    names = {one.communicate(timeout=60)[0].strip() for one in asking}
    assert names == {"w", *(f"w-{number}" for number in range(2, 7))}


def test_a_name_that_was_declared_without_a_claim_is_taken(tmp_path: Path) -> None:
    (tmp_path / "declared").mkdir()
    (tmp_path / "declared" / "flux-1.jsonl").write_text('{"type": "workflow", "workflow": "a/b"}\n')
    assert unused_name(tmp_path, "a/b") == "a/b-2"
    assert not claimed(tmp_path, "a/b") and not claimed(tmp_path, "a/b-2")
    assert claimed(tmp_path, "c") and not claimed(tmp_path, "c")
    assert unused_name(tmp_path, "c") == "c-2"
