"""`tailrace adapter MANAGER`: prints where the file is that a workflow manager loads to be traced."""

from importlib.util import find_spec
from pathlib import Path

import click

from tailrace.errors import UsageError
from tailrace.managers import ADAPTERS

FILES = {name: row.loads for name, row in ADAPTERS.items() if row.loads}


@click.command()
@click.argument("manager", type=click.Choice(list(FILES)), metavar=f"[{'|'.join(FILES)}]")
@click.option("--begin", nargs=2, hidden=True, help="Of tailrace.mk: makefile, make's version.")
def command(manager: str, begin: tuple[str, str] | None) -> None:
    """Print the path of the file that a workflow manager loads to be traced.

    \b
        make -f Makefile -f "$(tailrace adapter make)"
        makeflow --wrapper "$(tailrace adapter makeflow) %%" flow.mf
        tailrace adapter maestro              for a study: `batch: {shell: THIS}`
        tailrace adapter merlin               the same
        nextflow -c "$(tailrace adapter nextflow)" run main.nf
        snakemake --log-handler-script "$(tailrace adapter snakemake)" ...    Snakemake 7
    """
    if begin is not None:
        from tailrace.make.begin import begin as begin_make

        click.echo(begin_make(*begin))
        return
    name = FILES[manager]
    spec = find_spec(f"tailrace.{manager}")
    places = [Path(place) / name for place in (spec.submodule_search_locations or [])] if spec is not None else []
    found = next((path for path in places if path.is_file()), None)
    if found is None:
        raise UsageError(f"this installation has no {name} for {manager}: install tailrace again with pip")
    click.echo(found)
