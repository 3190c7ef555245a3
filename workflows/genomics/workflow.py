"""Variants in simulated genomes with bwa, samtools and bcftools, driven by Parsl: 28 tasks, four samples.

    unpack        gunzip, samtools faidx: the reference and its index
    index         bwa index
    simulate (x4) wgsim: a sample's reads, and where it differs from the reference
    align (x4)    bwa mem
    sort (x4)     samtools sort, samtools index
    count (x4)    samtools idxstats
    pile (x4)     bcftools mpileup; is given the reference as a plain string, which Parsl knows nothing of
    call (x4)     bcftools call, bcftools index
    merge         bcftools merge
    summarize     what was found, as JSON                                 Python

    python workflow.py FOLDER [--executor htex|threads] [--workers N]

The programs come from Debian's `bwa`, `samtools` (it has wgsim) and `bcftools`. expected.json beside this file says
what must come out. Traced by Parsl's one line `trace(...)`: run it alone, or under `tailrace run`.
"""

import sys
from pathlib import Path

from parsl.app.app import bash_app, python_app
from parsl.data_provider.files import File

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import local
from genome import make_genome

SAMPLES = ("ada", "bo", "cy", "dee")
PAIRS = 2000
INDEX = (".amb", ".ann", ".bwt", ".pac", ".sa")
PACKAGES = {"bwa": "bwa", "samtools": "samtools", "wgsim": "samtools", "bcftools": "bcftools"}


@bash_app
def unpack(inputs=(), outputs=()):
    """The index `.fai` that samtools puts beside the reference is undeclared."""
    return f"gunzip -c '{inputs[0]}' > '{outputs[0]}' && samtools faidx '{outputs[0]}'"


@bash_app
def index(inputs=(), outputs=()):
    prefix = str(outputs[0])[: -len(".amb")]
    return f"bwa index -p '{prefix}' '{inputs[0]}' 2> /dev/null"


@bash_app
def simulate(seed, pairs, inputs=(), outputs=()):
    first, second, truth = outputs
    options = f"-S {seed} -N {pairs} -1 100 -2 100 -e 0.002 -r 0.002 -R 0"
    return f"wgsim {options} '{inputs[0]}' '{first}' '{second}' > '{truth}' 2> /dev/null"


@bash_app
def align(sample, inputs=(), outputs=()):
    first, second, *index = inputs
    prefix = str(index[0])[: -len(".amb")]
    group = f"-R '@RG\\tID:{sample}\\tSM:{sample}'"
    return f"bwa mem -t 1 -v 1 {group} '{prefix}' '{first}' '{second}' > '{outputs[0]}'"


@bash_app
def sort(inputs=(), outputs=()):
    return f"samtools sort -o '{outputs[0]}' '{inputs[0]}' && samtools index '{outputs[0]}'"


@bash_app
def count(inputs=(), outputs=()):
    return f"samtools idxstats '{inputs[0]}' > '{outputs[0]}'"


@bash_app
def pile(reference, inputs=(), outputs=()):
    """`reference` is a str: what it names is no dependency for Parsl."""
    return f"bcftools mpileup -f '{reference}' -Ob -o '{outputs[0]}' '{inputs[0]}' 2> /dev/null"


@bash_app
def call(inputs=(), outputs=()):
    return f"bcftools call --ploidy 2 -mv -Oz -o '{outputs[0]}' '{inputs[0]}' && bcftools index '{outputs[0]}'"


@bash_app
def merge(inputs=(), outputs=()):
    called = " ".join(f"'{file}'" for file in inputs if str(file).endswith(".gz"))
    return f"bcftools merge {called} -Ov -o '{outputs[0]}'"


@python_app
def summarize(samples, inputs=(), outputs=()):
    """Counts variants against the truth, and aligned reads. `inputs`: merged, then truth and count of each sample."""
    import json
    from pathlib import Path

    merged, *rest = (Path(file).read_text().splitlines() for file in inputs)
    variants = {int(line.split("\t")[1]) for line in merged if not line.startswith("#")}
    truth = {int(line.split("\t")[1]) for lines in rest[:samples] for line in lines}
    aligned = [int(lines[0].split("\t")[2]) for lines in rest[samples:]]
    found = {"variants": len(variants), "true": len(variants & truth), "aligned": min(aligned)}
    Path(outputs[0]).write_text(json.dumps(found) + "\n")
    return found


def run_workflow(folder, genome):
    """Runs the workflow with its files in `folder`. Returns what was found, as a dict."""

    def file(name):
        return File(str(folder / name))

    reference = unpack(inputs=[File(str(genome))], outputs=[file("genome.fa")]).outputs[0]
    indexed = index(inputs=[reference], outputs=[file(f"genome.bwa{end}") for end in INDEX]).outputs
    called, truths, counts = [], [], []
    for number, name in enumerate(SAMPLES):
        reads = [file(f"{name}.{end}") for end in ("1.fq", "2.fq", "truth")]
        *pair, truth = simulate(11 + number, PAIRS, inputs=[reference], outputs=reads).outputs
        aligned = align(name, inputs=[*pair, *indexed], outputs=[file(f"{name}.sam")]).outputs[0]
        bam, bai = sort(inputs=[aligned], outputs=[file(f"{name}.bam"), file(f"{name}.bam.bai")]).outputs
        counts.append(count(inputs=[bam, bai], outputs=[file(f"{name}.count")]).outputs[0])
        piled = pile(str(folder / "genome.fa"), inputs=[bam], outputs=[file(f"{name}.bcf")]).outputs[0]
        called += call(inputs=[piled], outputs=[file(f"{name}.vcf.gz"), file(f"{name}.vcf.gz.csi")]).outputs
        truths.append(truth)
    merged = merge(inputs=called, outputs=[file("all.vcf")]).outputs[0]
    return summarize(len(SAMPLES), inputs=[merged, *truths, *counts], outputs=[file("summary.json")]).result()


if __name__ == "__main__":
    local.main(__doc__, "genomics", PACKAGES, make_genome, run_workflow)
