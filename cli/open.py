"""`tailrace open`: the report's page and the timeline in the browser, from a server on this machine."""

from __future__ import annotations

import sys
import webbrowser
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from tailrace.cli.opening import open_run
from tailrace.cli.options import PATH, scheduler_option
from tailrace.integrations.messages import say


@click.command()
@click.argument("directory", type=PATH, metavar="DIR")
@click.option("--timeline", is_flag=True, help="Open the timeline instead of the report's page.")
@click.option("--no-browser", is_flag=True, help="Only print the addresses.")
@scheduler_option
def command(directory: Path, timeline: bool, no_browser: bool) -> None:
    """Show the run DIR in the web browser: the report's page, and the timeline in Perfetto.

    Both are served on this machine (127.0.0.1, a free port, addresses that contain a secret) until Ctrl-C. Perfetto's
    page comes from ui.perfetto.dev; the browser hands it the timeline, which goes nowhere else.
    """
    from tailrace.analyzer import exports
    from tailrace.analyzer.report.html import write_html
    from tailrace.cli.serving import Server

    run = open_run(directory)
    with TemporaryDirectory(prefix="tailrace-") as folder:
        page, trace = Path(folder) / "report.html", Path(folder) / "timeline.json.gz"
        write_html(run, page)
        for note in exports.export(run, "perfetto", trace):
            say(note)
        viewer = Path(__file__).with_name("timeline.html")
        with Server({file.name: file for file in (page, viewer, trace)}) as server:
            click.echo(f"page: {server.url(page.name)}")
            click.echo(f"timeline: {server.url(viewer.name)}")
            sys.stdout.flush()
            click.echo("Ctrl-C ends it.", err=True)
            if not no_browser:
                webbrowser.open(server.url(viewer.name if timeline else page.name))
            server.serve_forever()
