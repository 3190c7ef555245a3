"""Importers of declared graphs, a module a format, and `every`: those and the ones that other packages bring.

Each module has an IMPORTER (tailrace.integrations.importing), and reads without its manager.
"""

from tailrace.integrations import managers, wfformat
from tailrace.integrations.importers import airflow, cwlprov, maestro, makeflow, merlin, nextflow, slurm, snakemake
from tailrace.integrations.importing import Importer

OURS: tuple[Importer, ...] = (
    wfformat.IMPORTER,
    *(one.IMPORTER for one in (airflow, cwlprov, maestro, makeflow, merlin, nextflow, slurm, snakemake)),
)


def every() -> list[Importer]:
    """All importers of this installation; ours first."""
    return [*OURS, *managers.importers()]
