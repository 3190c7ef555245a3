"""Importers of declared graphs: `every`, of our managers (tailrace.NAME.importer) and what other packages bring.

Each module has an IMPORTER (tailrace.integrations.importing), and reads without its manager.
"""

from importlib import import_module

from tailrace.integrations import managers, wfformat
from tailrace.integrations.importing import Importer

_MANAGERS = ("airflow", "cwl", "maestro", "makeflow", "merlin", "nextflow", "slurm", "snakemake")


def every() -> list[Importer]:
    """All importers of this installation; ours first."""
    ours = [import_module(f"tailrace.{name}.importer").IMPORTER for name in _MANAGERS]
    return [wfformat.IMPORTER, *ours, *managers.importers()]
