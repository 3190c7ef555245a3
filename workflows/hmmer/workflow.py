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

import gzip
import shutil
import sys
from pathlib import Path

from parsl.app.app import bash_app, python_app
from parsl.data_provider.files import File

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import local

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


if __name__ == "__main__":
    local.main(__doc__, "hmmer", {"hmmbuild": "hmmer hmmer-examples"}, find_alignments, run_workflow)
