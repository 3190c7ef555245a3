"""Makes the seeds of the fuzz targets with the real core: `python tests/fuzz/make_seeds.py DIR` (tailrace installed).

A target without any takes hours to find its way past a magic number. They are made for each run and not kept, so that
they have the format of the day and nothing of the machine that made them.
"""

import gzip
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

from tailrace import installation

SEEDS = Path(sys.argv[1]).resolve()
# As in core/src/format/journal.h, and in format/journal.cc.
HEADER_BYTES, SLOT_BYTES, HEADER_INPUT = 4096, 64, 512

PROGRAM = """
import os, signal, sys
with open("out", "w") as f:
    f.write("some text\\n")
os.rename("out", b"na\\xffme")
os.link(b"na\\xffme", "li\\"nk")
data = os.open("li\\"nk", os.O_RDONLY)
os.read(data, 100)
try:
    os.stat("missing")
except OSError:
    pass
os.kill(os.getpid(), getattr(signal, sys.argv[1]))
"""


def put(target: str, name: str, data: bytes) -> None:
    (SEEDS / target).mkdir(parents=True, exist_ok=True)
    (SEEDS / target / name).write_bytes(data)


def run(work: Path, end: str) -> tuple[list[Path], list[Path]]:
    """A small program under the core, without a sealer: its trace files and the journals that it leaves."""
    (work / "run" / "trace").mkdir(parents=True)
    (work / "journal").mkdir()
    library = installation.PACKAGE / "lib" / "libtailrace.so"
    settings = {
        "LD_PRELOAD": str(library),
        "TAILRACE_RUN": str(work / "run"),
        "TAILRACE_JOURNAL_DIR": str(work / "journal"),
        "TAILRACE_TAGS": "workflow=w,stage=s%20t,sample=NA12878",
    }
    command = [sys.executable, "-S", "-E", "-c", PROGRAM, end]
    subprocess.run(command, cwd=work, env={**os.environ, **settings}, check=False)
    return sorted((work / "run" / "trace").glob("*.pfw.gz")), sorted((work / "journal").rglob("*.tj"))


def journal_seed(journal: bytes, last: int) -> bytes:
    """The journal as format/journal.cc takes it, with its first record and the `last`, as Python's start is long."""
    slots = [journal[at : at + SLOT_BYTES] for at in range(HEADER_BYTES, len(journal) - SLOT_BYTES + 1, SLOT_BYTES)]
    used = [slot for slot in slots if struct.unpack_from("=I", slot)[0]]
    return b"\x01" + journal[:HEADER_INPUT] + b"".join(used[:40] + used[40:][-last:])


def block_text(file: Path, lines: int) -> bytes:
    text = gzip.decompress(file.read_bytes()).splitlines(keepends=True)
    return b"".join(text[:3] + text[-lines:])


def main() -> None:
    shutil.rmtree(SEEDS, ignore_errors=True)
    with tempfile.TemporaryDirectory() as directory:
        work = Path(directory)
        (work / "a").mkdir()
        (work / "b").mkdir()
        traces, _ = run(work / "a", "SIGCONT")
        _, journals = run(work / "b", "SIGKILL")
        block = traces[0].read_bytes()
        put("trace_file", "whole", block)
        put("trace_file", "torn", block + block[: len(block) // 2])
        put("block_walk", "two", block + block)
        text = block_text(traces[0], 12)
        put("parse", "events", bytes([text.count(b'"ph":"X"')]) + text)
        put("parse", "columns", bytes([text.count(b'"ph":"X"') | 64]) + text)
        words = b"".join(
            bytes([call | 40, len(line) % 256, 0]) + line[:255] for call, line in enumerate(text.splitlines())
        )
        put("line_deflate", "roomy", b"\x01" + words)
        put("line_deflate", "narrow", b"\x00" + words)
        for last in (20, 60):
            put("journal", f"last{last}", journal_seed(journals[0].read_bytes(), last))
    put(
        "tags",
        "two",
        b"workflow=w,stage=s%20t,task=1,job=2,rank=3,sample=NA12878\nstage=other,zeta=%C3%A9,b.c-d_e=:/@+",
    )
    put("tags", "plain", b"a=1")
    put("pieces", "read", b"[4096,[0,1200,21,8192,651],[1502,1130,18,7372,559,[1,2,3,4],0,9,1,0],[1,1,1,1,1,[]]]")
    # Eight bytes an event (edges.cc): reads of one file, a truncation, a write.
    reads = b"".join(bytes([0, 0, 1, 1, i, 0x51, 3 + i, 0]) for i in range(0, 60, 5))
    put("edges", "reads", b"\x06" + reads)
    put(
        "edges", "mixed", b"\x04" + reads[:32] + bytes([1, 0, 0, 1, 20, 1, 0x81, 0, 0, 0, 2, 1, 21, 0x31, 9, 0]) + reads
    )
    # Sizes and durations below zero.
    inverted = bytes.fromhex(
        "fdffff000100510300ffffffffffffff310000010105510800000001010a510d0000000101f70303030303030303035c5c5c"
        "5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c030303030600000101fdffff000100510300ffffffffffffff3100"
        "00010105514100000001010a510d0000000101f7030303030303030303030301f70303030303030303030303"
    )
    put("edges", "inverted", inverted)
    put(
        "settings",
        "traced",
        b"PATH=/bin\nLD_PRELOAD=/x.so /lib/libtailrace.so:/y.so\nTAILRACE_RUN=/run\nTAILRACE_TAGS=a=1\n"
        b"TAILRACE_PROCESS=1:2:3:0\nSLURM_JOB_ID=7\nSLURM_PROCID=1\nTAILRACE_CLOCK=monotonic\nHOME=/root",
    )
    put("redaction", "options", b"curl\0-u\0a:b\0--token\0-x\0https://a:b@h/?sig=1\0Authorization: Bearer x")
    shell = b"sh\0-c\0sshpass -p 'a b' mysql -pc; X_TOKEN=\"a\" curl -su a:b | zip -P x ghp_0123456789012345678901"
    put("redaction", "shell", shell)
    put("redaction", "words", b"sh\0-c\0a --token \\\n $(b \"`c`\" ${d}) 'e' x:y@z\0password\0=\0x")
    put("settings", "untraced", b"PATH=/bin\nLD_PRELOAD=/x.so  /y.so")


if __name__ == "__main__":
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    main()
