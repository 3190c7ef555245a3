"""A small workflow on real text, for `tailrace demo`: which words the Python standard library's sources are made of.

    collect (x6)   one package's .py files into one text                    read many, write a temporary, rename
    stopwords      keywords and built-in names, one sorted list             the words to leave out
    words (x6)     tr | tr | sort                                           four processes, two pipes, a rename
    merge          sort -m over all words | join                            fan-in
    rank           counts, keeps the 1000 most frequent                     a Python task
    locate (x6)    how often each of the most frequent is in one text       a Python task
    summary        a page of text

It needs Python and coreutils. Three problems are on purpose, and the report names each of them:

    a race          merge reads the list of stopwords by a plain path. Parsl is not told that it depends on it, and
                    nothing else makes it wait: where the list comes late, merge fails or leaves no word out.
    read again      locate reads its whole text anew for each word.
    one file        merge and rank wait until files are complete that they could read while these are written, and the
                    six locates wait for the one file of rank.
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
    """Writes Python's keywords and built-in names in lower case, sorted as `LC_ALL=C sort` does, to outputs[0]. Returns
    their number."""
    import builtins
    import keyword
    from pathlib import Path

    names = sorted({name.lower() for name in (*keyword.kwlist, *dir(builtins))})
    Path(outputs[0].filepath).write_text("".join(f"{name}\n" for name in names))
    return len(names)


@bash_app
def words(inputs: tuple[File, ...] = (), outputs: tuple[File, ...] = ()) -> str:
    """Writes the words of inputs[0] in lower case, sorted, one a line, to outputs[0]."""
    text, sorted_words = inputs[0], outputs[0]
    return (
        "set -o pipefail; export LC_ALL=C; "
        f"tr -cs 'A-Za-z' '\\n' < '{text}' | tr 'A-Z' 'a-z' | sort -o '{sorted_words}.tmp' && "
        f"mv '{sorted_words}.tmp' '{sorted_words}'"
    )


@bash_app
def merge(stop_path: str, inputs: tuple[File, ...] = (), outputs: tuple[File, ...] = ()) -> str:
    """Merges the sorted words of inputs into outputs[0], without those in the file at `stop_path`."""
    files = " ".join(f"'{file}'" for file in inputs)
    merged = outputs[0]
    return (
        "set -o pipefail; export LC_ALL=C; "
        f"sort -m {files} | join -v 1 - '{stop_path}' > '{merged}.tmp' && mv '{merged}.tmp' '{merged}'"
    )


@python_app
def rank(inputs: tuple[File, ...] = (), outputs: tuple[File, ...] = ()) -> int:
    """Counts the words of inputs[0] and writes the 1000 most frequent: lines of count and word. Returns the number."""
    from collections import Counter
    from pathlib import Path

    totals: Counter[str] = Counter()
    with Path(inputs[0].filepath).open() as lines:
        for line in lines:
            word = line.strip()
            if len(word) > 1:  # no single letters
                totals[word] += 1
    scratch = Path(f"{outputs[0].filepath}.tmp")
    scratch.write_text("".join(f"{number} {word}\n" for word, number in totals.most_common(1000)))
    scratch.replace(outputs[0].filepath)
    return len(totals)


@python_app
def locate(inputs: tuple[File, ...] = (), outputs: tuple[File, ...] = ()) -> None:
    """Writes how often each of the 40 most frequent words of inputs[1] is in the text of inputs[0] to outputs[0]."""
    from pathlib import Path

    words = [line.split()[1] for line in Path(inputs[1].filepath).read_text().splitlines()[:40]]
    # The text is read again for each word: the report says how many bytes that is.
    found = [(word, Path(inputs[0].filepath).read_bytes().count(word.encode())) for word in words]
    Path(outputs[0].filepath).write_text("".join(f"{word} {number}\n" for word, number in found))


@python_app
def summary(sizes: list[int], inputs: tuple[File, ...] = (), outputs: tuple[File, ...] = ()) -> str:
    """Writes a few lines of text on what was found in the counts of inputs to outputs[0], and returns them."""
    from pathlib import Path

    first = [line.split()[0] for line in Path(inputs[0].filepath).read_text().splitlines()[:4]]
    places = sum(int(line.split()[1]) for file in inputs for line in Path(file.filepath).read_text().splitlines())
    text = f"{sum(sizes):,} bytes of source; most frequent: {', '.join(first)}; {places:,} places\n"
    Path(outputs[0].filepath).write_text(text)
    return text


def run_workflow(folder: Path) -> str:
    """Runs the workflow with its files in `folder`; a Parsl configuration must be loaded. Returns the summary."""

    def file(name: str) -> File:
        return File(str(folder / name))

    stopwords(outputs=[file("stopwords.txt")])
    texts = [collect(package, outputs=[file(f"{package}.txt")]) for package in PACKAGES]
    split = [
        words(inputs=[text.outputs[0]], outputs=[file(f"{package}.words")])
        for package, text in zip(PACKAGES, texts, strict=True)
    ]
    # A plain path instead of the future's output: Parsl does not know that merge needs the list.
    merged = merge(
        str(folder / "stopwords.txt"), inputs=[task.outputs[0] for task in split], outputs=[file("all.words")]
    )
    ranked = rank(inputs=[merged.outputs[0]], outputs=[file("ranked.txt")])
    found = [
        locate(inputs=[text.outputs[0], ranked.outputs[0]], outputs=[file(f"{package}.places")])
        for package, text in zip(PACKAGES, texts, strict=True)
    ]
    sizes = [text.result() for text in texts]
    page = summary(sizes, inputs=[task.outputs[0] for task in found], outputs=[file("summary.txt")])
    return str(page.result())


class LocalWorkers(LocalProvider):
    """Parsl's local provider, which ends its workers by ps(1); a minimal installation has none (Debian: procps)."""

    def cancel(self, job_ids: Sequence[object]) -> list[bool]:
        """Ends the process groups of these jobs. Returns True for each, also for one that has ended already."""
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
    """Runs the workflow traced, with its files in the working directory."""
    folder = Path.cwd()
    # Parsl starts its programs by name, and they are beside the Python of this process.
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    with parsl.load(trace(configuration(folder), workflow="words")):
        sys.stdout.write(run_workflow(folder))


if __name__ == "__main__":
    # The apps must belong to a module that workers can import, not to __main__.
    from tailrace.parsl.demo import main as main_of_module

    main_of_module()
