"""What tracing costs calls that wait, and those that could and do not; and what the waits of a program's runtime write.

    python tests/bench/waits.py [--rounds N] [--programs]

    compile waits.c -> rounds of (native, traced), one after the other -> ns a call: the least, and what is added

The program times its own loop, of which the fastest of seven counts; the least over the rounds is what neighbours on
the machine move least. A hand-over is a wait of both threads. --programs: events and bytes a second of runtimes that
wait thousands of times a second by themselves, where they are installed.
"""

import argparse
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
CASES = {
    "poll-0": 200_000,
    "poll-ready": 200_000,
    "epoll-0": 200_000,
    "select-0": 200_000,
    "sem-free": 500_000,
    "rwlock-free": 500_000,
    "fcntl-free": 100_000,
    "nanosleep": 2_000,
    "sem-hand-over": 20_000,
    "cond-hand-over": 20_000,
}
"""Case -> calls a round."""

PYTHON = """
import threading, time
def burn(until):
    n = 0
    while time.monotonic() < until:
        n += 1
until = time.monotonic() + 5
threads = [threading.Thread(target=burn, args=(until,)) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""
QUEUES = """
import queue, threading, time
there, back = queue.Queue(), queue.Queue()
def answer():
    while there.get() is not None:
        back.put(1)
thread = threading.Thread(target=answer)
thread.start()
until = time.monotonic() + 5
while time.monotonic() < until:
    there.put(1); back.get()
there.put(None); thread.join()
"""
NODE = """
const fs = require('fs'), until = Date.now() + 5000;
(function again() { fs.readFile('/etc/hostname', () => { if (Date.now() < until) setImmediate(again); }); })();
"""
JAVA = """
import java.util.concurrent.*;
public class Waits {
  public static void main(String[] a) throws Exception {
    SynchronousQueue<Object> there = new SynchronousQueue<>(), back = new SynchronousQueue<>();
    Thread t = new Thread(() -> {
      try { while (true) { there.take(); back.put(1); } } catch (InterruptedException e) { }
    });
    t.setDaemon(true); t.start();
    long until = System.nanoTime() + 5_000_000_000L;
    byte[][] kept = new byte[64][];
    for (int i = 0; System.nanoTime() < until; ++i) { there.put(1); back.take(); kept[i % 64] = new byte[1 << 16]; }
  }
}
"""


def traced(run: Path) -> list[object]:
    """The words before a command that is to be traced."""
    return [Path(sysconfig.get_path("scripts")) / "tailrace", "run", "-q", "-o", run, "--"]


def timed(*command: object) -> float:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=True)
    return float(done.stdout)


def measure(rounds: int, place: Path) -> None:
    program = place / "waits"
    subprocess.run(["cc", "-O2", "-w", "-pthread", "-o", program, HERE / "waits.c"], check=True)
    print(f"{'case':16} {'native':>10} {'traced':>10} {'added':>8}  ns a call")
    for case, calls in CASES.items():
        native, ours = [], []
        for number in range(rounds):
            native.append(timed(program, case, calls))
            ours.append(timed(*traced(place / f"{case}-{number}"), program, case, calls))
        print(f"{case:16} {min(native):10.1f} {min(ours):10.1f} {min(ours) - min(native):8.1f}")


def programs(place: Path) -> None:
    (place / "waits.js").write_text(NODE)
    (place / "Waits.java").write_text(JAVA)
    commands = {
        "python, 4 threads that compute": [sys.executable, "-c", PYTHON],
        "python, a queue each way": [sys.executable, "-c", QUEUES],
        "node, files": ["node", place / "waits.js"],
        "java, queues and garbage": ["java", place / "Waits.java"],
    }
    print(f"{'program':34} {'events':>9} {'waits':>9} {'calls':>11} {'bytes/s':>9}")
    for title, command in commands.items():
        if shutil.which(str(command[0])) is None:
            print(f"{title:34} not installed")
            continue
        run = place / title.replace(" ", "_").replace(",", "")
        begin = time.monotonic()
        subprocess.run(list(map(str, [*traced(run), *command])), check=True)
        took = time.monotonic() - begin
        size = sum(file.stat().st_size for file in (run / "trace").iterdir())
        events, lines, calls = counted(run)
        print(f"{title:34} {events:9,} {lines:9,} {calls:11,} {size / took:9,.0f}")


def counted(run: Path) -> tuple[int, int, int]:
    """Events; lines of waits, and the calls that they stand for."""
    import tailrace

    events = tailrace.open(run).read(["cat", "calls"])
    waits = events[events["cat"] == "WAIT"]
    return len(events), len(waits), int(waits["calls"].sum())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--programs", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if options.programs:
            programs(Path(folder))
        else:
            measure(options.rounds, Path(folder))


if __name__ == "__main__":
    main()
