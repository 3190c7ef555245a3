"""A small workflow on real text, for `tailrace demo`: which words the Python standard library's sources are made of.

    collect (x6)   one package's .py files into one text                    read many, write a temporary, rename
    stopwords      the keywords, which every count leaves out               the input that all share
    count (x6)     tr | tr | sort | uniq | join                             five processes, four pipes, a rename
    merge          sort -m over all counts                                  fan-in
    rank           adds up, keeps the 1000 most frequent                    a Python task
    summary        a page of text; also reads the stop words' file, by a plain path that Parsl never hears of

It needs Python and coreutils. The last line above is on purpose: the report names that dependency.
"""

import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import parsl
from parsl.app.app import bash_app, python_app
from parsl.config import Config
from parsl.data_provider.files import File
from parsl.executors import HighThroughputExecutor
from parsl.providers import LocalProvider
from tailrace.parsl import trace

PACKAGES = ("asyncio", "email", "json", "multiprocessing", "unittest", "xml")


@python_app
def collect(package: str, outputs: tuple[File, ...] = ()) -> int:
    """Joins the sources of a standard package into outputs[0]. Returns its bytes."""
    import importlib
    from pathlib import Path

    folder = Path(str(importlib.import_module(package).__file__)).parent
    scratch = Path(f"{outputs[0].filepath}.tmp")
    with scratch.open("wb") as text:
        for source in sorted(folder.rglob("*.py")):
            text.write(source.read_bytes())
    size_bytes = scratch.stat().st_size
    scratch.replace(outputs[0].filepath)
    return size_bytes


@python_app
def stopwords(outputs: tuple[File, ...] = ()) -> int:
    """Writes Python's keywords in lower case, sorted as `LC_ALL=C sort` does, to outputs[0]. Returns their number."""
    import keyword
    from pathlib import Path

    words = sorted({word.lower() for word in keyword.kwlist})
    Path(outputs[0].filepath).write_text("".join(f"{word}\n" for word in words))
    return len(words)


@bash_app
def count(inputs: tuple[File, ...] = (), outputs: tuple[File, ...] = ()) -> str:
    """Counts the words of inputs[0] that are not in inputs[1] into outputs[0]: lines of word and count."""
    text, stop, counts = inputs[0], inputs[1], outputs[0]
    return (
        "set -o pipefail; export LC_ALL=C; "
        f"tr -cs 'A-Za-z' '\\n' < '{text}' | tr 'A-Z' 'a-z' | sort | uniq -c | "
        f"join -v 1 -1 2 -o 1.2,1.1 - '{stop}' > '{counts}.tmp' && mv '{counts}.tmp' '{counts}'"
    )


@bash_app
def merge(inputs: tuple[File, ...] = (), outputs: tuple[File, ...] = ()) -> str:
    """Merges the sorted counts of inputs into outputs[0]."""
    counts = " ".join(f"'{file}'" for file in inputs)
    return f"LC_ALL=C sort -m -k 1,1 {counts} > '{outputs[0]}.tmp' && mv '{outputs[0]}.tmp' '{outputs[0]}'"


@python_app
def rank(inputs: tuple[File, ...] = (), outputs: tuple[File, ...] = ()) -> int:
    """Adds up the counts of each word of inputs[0] and writes the 1000 most frequent. Returns the number of words."""
    from collections import Counter
    from pathlib import Path

    totals: Counter[str] = Counter()
    with Path(inputs[0].filepath).open() as lines:
        for line in lines:
            word, _, number = line.rpartition(" ")
            if word:  # a text that begins with no letter has a word of none
                totals[word] += int(number)
    scratch = Path(f"{outputs[0].filepath}.tmp")
    scratch.write_text("".join(f"{number} {word}\n" for word, number in totals.most_common(1000)))
    scratch.replace(outputs[0].filepath)
    return len(totals)


@python_app
def summary(stop_path: str, sizes: list[int], inputs: tuple[File, ...] = (), outputs: tuple[File, ...] = ()) -> str:
    """Writes a few lines of text on what was counted to outputs[0], and returns them."""
    from pathlib import Path

    left_out = len(Path(stop_path).read_text().split())
    first = [line.split()[1] for line in Path(inputs[0].filepath).read_text().splitlines()[:10]]
    text = f"{sum(sizes)} bytes of source, {left_out} keywords left out; most frequent: {', '.join(first)}\n"
    Path(outputs[0].filepath).write_text(text)
    return text


def run_workflow(folder: Path) -> str:
    """Runs the workflow with its files in `folder`; a Parsl configuration must be loaded. Returns the summary."""

    def file(name: str) -> File:
        return File(str(folder / name))

    stop = stopwords(outputs=[file("stopwords.txt")])
    texts = [collect(package, outputs=[file(f"{package}.txt")]) for package in PACKAGES]
    counts = [
        count(inputs=[text.outputs[0], stop.outputs[0]], outputs=[file(f"{package}.counts")])
        for package, text in zip(PACKAGES, texts, strict=True)
    ]
    merged = merge(inputs=[task.outputs[0] for task in counts], outputs=[file("all.counts")])
    ranked = rank(inputs=[merged.outputs[0]], outputs=[file("ranked.txt")])
    sizes = [text.result() for text in texts]
    told = summary(str(folder / "stopwords.txt"), sizes, inputs=[ranked.outputs[0]], outputs=[file("summary.txt")])
    return str(told.result())


class LocalWorkers(LocalProvider):
    """Parsl's local provider, which ends its workers by ps(1); a minimal installation has none (Debian: procps)."""

    def cancel(self, job_ids: Sequence[object]) -> list[bool]:
        """Ends the process groups of these jobs. True for each: what is no more needs no ending."""
        for job in job_ids:
            self.resources[job]["cancelled"] = True
            with suppress(ProcessLookupError):
                os.killpg(os.getpgid(self.resources[job]["remote_pid"]), signal.SIGTERM)
        return [True for _ in job_ids]


def configuration(folder: Path) -> Config:
    """Two workers on this node that talk over the loopback interface only."""
    executor = HighThroughputExecutor(
        label="workers",
        address="127.0.0.1",
        max_workers_per_node=2,
        cores_per_worker=1e-6,  # two workers on one core, too
        encrypted=False,
        provider=LocalWorkers(init_blocks=1, max_blocks=1),  # type: ignore[no-untyped-call]
    )
    # Parsl starts its first workers when it has waited for one period; its default is 5 s.
    return Config(executors=[executor], run_dir=str(folder / "runinfo"), strategy="none", strategy_period=0.2)


def main() -> None:
    """Runs the workflow traced, with its files in the folder that the first argument names."""
    folder = Path(sys.argv[1]).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    # Parsl starts its programs by name, and they lie beside the Python that runs us.
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    with parsl.load(trace(configuration(folder), workflow="words")):
        sys.stdout.write(run_workflow(folder))


if __name__ == "__main__":
    # The apps must belong to a module that workers can import, not to __main__.
    from tailrace.parsl.demo import main as main_of_module

    main_of_module()
