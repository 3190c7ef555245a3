"""`tailrace managers`: the adapters of workflow managers that are installed, and what to type for each."""

import click

from tailrace.cli.options import format_option


@click.command()
@format_option
def command(form: str) -> None:
    """List the workflow managers that have an adapter, ours and other packages'.

    Each with its version here, the versions that the adapter was tested with, and the one line to type. For all other
    managers: `tailrace tag`, `tailrace env`, and the variables of docs/managers.md.
    """
    from tailrace.cli.lines import put_json, render
    from tailrace.integrations import managers

    entries = managers.installed()
    if form == "json":
        put_json(
            {
                entry.name: {
                    "title": entry.manager.title if entry.manager else None,
                    "version": entry.version or None,
                    "tested": list(entry.manager.tested) if entry.manager else None,
                    "state": entry.state,
                    "use": entry.manager.use if entry.manager else None,
                    "imports": [importer.what for importer in entry.manager.importers] if entry.manager else [],
                    "package": entry.package,
                }
                for entry in entries
            }
        )
        return
    rows = [
        [
            entry.manager.title if entry.manager else entry.name,
            entry.version or None,
            " to ".join(dict.fromkeys(entry.manager.tested)) if entry.manager else None,
            entry.state,
            entry.manager.use if entry.manager else None,
            entry.package,
        ]
        for entry in entries
    ]
    render(["manager", "version", "tested with", "state", "use", "package"], rows, numbers=False)
