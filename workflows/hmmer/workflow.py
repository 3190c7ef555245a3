"""Protein families with HMMER 3, driven by Parsl: 32 tasks whose every dependency goes through a file.

    build (x3)   hmmbuild: an alignment's profile
    emit (x3)    hmmemit: sequences that fit the profile
    split (x3)   a family's sequences in three parts              Python
    search (x9)  hmmsearch: a part against its family's profile
    collect (x3) a family's hits in one table                     Python
    press (x1)   hmmpress: the profiles as one binary database
    scan (x9)    hmmscan: a part against the database
    summarize    what was found, as JSON                          Python

    python workflow.py FOLDER [--executor htex|threads] [--workers N]

The programs and the tutorial's alignments come from Debian's `hmmer` and `hmmer-examples`. expected.json beside this
file says what must come out. Traced by its one line `trace(...)`: run it alone, or under `tailrace run`.
"""

import argparse
import gzip
import json
import os
import shutil
import sys
from pathlib import Path

import parsl
from parsl.app.app import bash_app, python_app
from parsl.config import Config
from parsl.data_provider.files import File
from parsl.executors import HighThroughputExecutor, ThreadPoolExecutor
from parsl.providers import LocalProvider

from tailrace.parsl import trace

ALIGNMENTS = Path("/usr/share/doc/hmmer/examples/tutorial")
FAMILIES = ("globins4", "fn3", "Pkinase")
PARTS = 3
SEQUENCES = 60
PRESSED = (".h3m", ".h3i", ".h3f", ".h3p")


@bash_app
def build(inputs=(), outputs=()):
    return f"hmmbuild --cpu 1 '{outputs[0]}' '{inputs[0]}'"


@bash_app
def emit(number, seed, inputs=(), outputs=()):
    return f"hmmemit -N {number} --seed {seed} -o '{outputs[0]}' '{inputs[0]}'"


@python_app
def split(inputs=(), outputs=()):
    """Deals the sequences of a FASTA file out to the outputs. Returns how many there were."""
    from pathlib import Path

    sequences = [">" + entry for entry in Path(inputs[0]).read_text().split(">") if entry.strip()]
    for number, part in enumerate(outputs):
        Path(part).write_text("".join(sequences[number :: len(outputs)]))
    return len(sequences)


@bash_app
def search(inputs=(), outputs=()):
    profile, sequences = inputs
    return f"hmmsearch --cpu 1 --noali -o /dev/null --tblout '{outputs[0]}' '{profile}' '{sequences}'"


@python_app
def collect(inputs=(), outputs=()):
    """Puts the hits of several tables into one. Returns their number."""
    from pathlib import Path

    hits = [line for table in inputs for line in Path(table).read_text().splitlines() if not line.startswith("#")]
    scratch = Path(f"{outputs[0]}.tmp")
    scratch.write_text("".join(f"{line}\n" for line in sorted(hits)))
    scratch.replace(outputs[0])
    return len(hits)


@bash_app
def press(inputs=(), outputs=()):
    profiles = " ".join(f"'{profile}'" for profile in inputs)
    return f"cat {profiles} > '{outputs[0]}' && hmmpress -f '{outputs[0]}'"


@bash_app
def scan(inputs=(), outputs=()):
    database, sequences = inputs[0], inputs[-1]
    return f"hmmscan --cpu 1 --noali -o /dev/null --tblout '{outputs[0]}' '{database}' '{sequences}'"


@python_app
def summarize(searched, inputs=(), outputs=()):
    """Counts hits: `searched` of the tables are collected searches, the rest scans. Writes and returns a dict."""
    import json
    from pathlib import Path

    def hits(table):
        return sum(not line.startswith("#") for line in Path(table).read_text().splitlines())

    found = {"search_hits": sum(map(hits, inputs[:searched])), "scan_hits": sum(map(hits, inputs[searched:]))}
    Path(outputs[0]).write_text(json.dumps(found) + "\n")
    return found


def run_workflow(folder, alignments):
    """Runs the workflow with its files in `folder`. Returns the number of hits, as a dict."""

    def file(name):
        return File(str(folder / name))

    profiles, parts, tables = {}, {}, []
    for number, (family, alignment) in enumerate(alignments.items()):
        profiles[family] = build(inputs=[File(str(alignment))], outputs=[file(f"{family}.hmm")]).outputs[0]
        emitted = emit(SEQUENCES, 42 + number, inputs=[profiles[family]], outputs=[file(f"{family}.fa")])
        names = [file(f"{family}.{part}.fa") for part in range(PARTS)]
        parts[family] = split(inputs=[emitted.outputs[0]], outputs=names).outputs
    for family in alignments:
        found = [
            search(inputs=[profiles[family], part], outputs=[file(f"{family}.{number}.search")]).outputs[0]
            for number, part in enumerate(parts[family])
        ]
        tables.append(collect(inputs=found, outputs=[file(f"{family}.hits")]).outputs[0])
    searched = len(tables)
    database = press(
        inputs=list(profiles.values()), outputs=[file(f"families.hmm{end}") for end in ("", *PRESSED)]
    ).outputs
    for family, its_parts in parts.items():
        for number, part in enumerate(its_parts):
            scanned = scan(inputs=[*database, part], outputs=[file(f"{family}.{number}.scan")])
            tables.append(scanned.outputs[0])
    return summarize(searched, inputs=tables, outputs=[file("summary.json")]).result()


def find_alignments(folder):
    """The tutorial's alignments by family; one that the package has compressed is unpacked into `folder`."""
    found = {}
    for family in FAMILIES:
        plain, packed = ALIGNMENTS / f"{family}.sto", ALIGNMENTS / f"{family}.sto.gz"
        if plain.exists():
            found[family] = plain
        elif packed.exists():
            found[family] = folder / plain.name
            with gzip.open(packed) as source, found[family].open("wb") as target:
                shutil.copyfileobj(source, target)
        else:
            sys.exit(f"{plain} is missing: apt install hmmer hmmer-examples")
    return found


def configuration(folder, executor, workers):
    """A Parsl configuration for this node: `workers` processes (htex) or threads."""
    executors = {
        "threads": lambda: ThreadPoolExecutor(label="workers", max_threads=workers),
        "htex": lambda: HighThroughputExecutor(
            label="workers",
            address="127.0.0.1",
            encrypted=False,
            max_workers_per_node=workers,
            cores_per_worker=1e-6,
            provider=LocalProvider(init_blocks=1, max_blocks=1),
        ),
    }
    # Parsl starts its first workers when it has waited for one period; its default is 5 s.
    return Config(
        executors=[executors[executor]()], run_dir=str(folder / "runinfo"), strategy="none", strategy_period=0.2
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="where the workflow's files go")
    parser.add_argument("--executor", choices=["htex", "threads"], default="htex")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--run", type=Path, help="the run directory (default: FOLDER/run)")
    options = parser.parse_args()
    if shutil.which("hmmbuild") is None:
        sys.exit("hmmbuild is not on PATH: apt install hmmer hmmer-examples")
    # Parsl starts its programs by name, and they lie beside the Python that runs us.
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    folder = options.folder.resolve()
    (folder / "files").mkdir(parents=True, exist_ok=True)
    config = configuration(folder, options.executor, options.workers)
    with parsl.load(trace(config, run_dir=options.run or folder / "run", workflow="hmmer")):
        print(json.dumps(run_workflow(folder / "files", find_alignments(folder / "files"))))


if __name__ == "__main__":
    main()
