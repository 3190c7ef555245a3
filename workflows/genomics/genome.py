"""The genome that the workflows of this folder begin with."""

import gzip
import random

LENGTH = 30_000


def make_genome(folder):
    """A random reference, gzip'd, in `folder`. Returns its path."""
    chance = random.Random(7)
    bases = "".join(chance.choices("ACGT", k=LENGTH))
    path = folder / "genome.fa.gz"
    lines = "\n".join(bases[start : start + 70] for start in range(0, LENGTH, 70))
    with gzip.open(path, "wt", encoding="ascii") as file:
        file.write(f">chr1\n{lines}\n")
    return path
