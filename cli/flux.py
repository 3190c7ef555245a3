"""`tailrace flux`: collects Flux's job history, checks a policy, and prints where the parts that Flux loads are."""

import json
import os
import shlex
import time
from pathlib import Path
from typing import Any

import click

from tailrace.analyzer.util.formatting import count_text
from tailrace.cli.options import PATH
from tailrace.errors import ManagerError, UsageError
from tailrace.integrations.indexing import chosen, index_at_end
from tailrace.integrations.messages import say

LISTED = 20
"""Runs that are named one by one when they are left out."""


@click.group(no_args_is_help=False)
def command() -> None:
    """Collect Flux's job history, check a policy, print where the plugins are."""


@command.command()
@click.argument("directory", type=PATH, metavar="[DIR]", required=False)
@click.option("--since", default="", metavar="TIME", help="Leave out jobs that ended before TIME (as in `flux jobs`).")
@click.option("--workflow", metavar="NAME", help="The workflow tag of untraced jobs.")
@click.option(
    "--within",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="Leave for a later collect what takes longer. Default: no limit.",
)
@click.option("-q", "--quiet", is_flag=True, help="Print warnings only.")
@click.option("--flux", type=PATH, metavar="PATH", help="The flux command. Default: the one on PATH.")
def collect(
    directory: Path | None, since: str, workflow: str | None, within: float | None, quiet: bool, flux: Path | None
) -> None:
    """Write Flux's job history to the run DIR: dependencies, times, nodes, results.

    Queries the surrounding instance (or the one that FLUX_URI names) and the instances inside its jobs. Can be
    repeated at any time: later results replace earlier ones. Without DIR, writes to every run that jobs of the
    instance were traced into. Also recovers records on this node of tasks whose shell was killed, in your own runs,
    and adds the runs to the store that the policy of their jobs (or TAILRACE_STORE) names.
    """
    from tailrace.flux import collect as history

    end = None if within is None else time.monotonic() + within
    try:
        done = history.collect(directory, since, workflow, flux, within)
    except OSError as error:
        raise UsageError(f"can't write to {error.filename}: {error.strerror}") from error
    for path, reason in done[0].unreachable if done else []:
        say(f"can't query the instance in job {path} ({reason}): run `tailrace flux collect` inside it")
    written = [each for each in done if not each.fault]
    for each in written if not quiet else []:
        jobs, instances = count_text(each.jobs, "job"), count_text(each.instances, "instance")
        left = f", {count_text(each.elsewhere, 'job')} left out (not traced into this run)" if each.elsewhere else ""
        left += f", {count_text(each.others, 'job')} of other users left out" if each.others else ""
        say(f"{jobs} of {instances}{left}; {each.run_dir}")
    faults = [each for each in done if each.fault]
    for each in faults[:LISTED]:
        say(f"{each.run_dir} left out: {each.fault}")
    if len(faults) > LISTED:
        say(f"{count_text(len(faults) - LISTED, 'further run')} left out")
    if not done:
        say("no job of this instance was traced into a run")
    stores: dict[str, list[Path]] = {}
    for each in written:
        stores.setdefault(chosen(each.store or None), []).append(each.run_dir)
    for store, runs in stores.items():
        index_at_end(runs, store, None if end is None else end - time.monotonic())


@command.command()
@click.argument("name", required=False, metavar="[PART]")
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "shell", "toml", "json"]),
    default="table",
    help="shell: exports for ~/.bashrc. toml: broker configuration. json: one object.",
)
def paths(name: str | None, form: str) -> None:
    """Print where the parts that Flux loads are installed, or one PART: jobtap, shell, shellrc, cli, modprobe.

    \b
        eval "$(tailrace flux paths --format shell)"          settings of a user, without privileges
        tailrace flux paths --format toml                     configuration that an administrator adds
        flux jobtap load "$(tailrace flux paths jobtap)"      in your own instance
    """
    from tailrace.flux.paths import MISSING, PARTS, user_settings

    complete = all(part.installed for part in PARTS)
    if form in ("shell", "toml") and not complete:
        raise ManagerError(MISSING)
    if name is not None:
        part = next((part for part in PARTS if part.name == name), None)
        if part is None:
            raise UsageError(f"unknown part {name!r}: give one of {', '.join(part.name for part in PARTS)}")
        if not part.installed:
            raise ManagerError(MISSING)
        click.echo(part.path)
    elif form == "shell":
        for variable, value in user_settings(os.environ).items():
            click.echo(f"export {variable}={shlex.quote(value)}")
    elif form == "toml":
        plugin = next(part for part in PARTS if part.name == "jobtap")
        click.echo(f"[[job-manager.plugins]]\nload = {json.dumps(str(plugin.path))}")
    elif form == "json":
        click.echo(json.dumps({part.name: str(part.path) if part.installed else None for part in PARTS}, indent=1))
    else:
        from tailrace.cli.lines import render

        rows = [[p.name, str(p.path) if p.installed else "not built", p.variable, p.what] for p in PARTS]
        render(["part", "path", "found by", "what it does"], rows, numbers=False)
        if not complete:
            click.echo(f"tailrace: {MISSING}", err=True)


@command.command()
@click.argument("file", type=PATH, metavar="FILE")
@click.option("--job", "names", multiple=True, metavar="NAME", help="Say what happens to a job of this name.")
@click.option("--queue", metavar="QUEUE", help="The queue of these jobs.")
@click.option("--jobspec", type=PATH, help="Say what happens to this job (flux submit --dry-run).")
@click.option("--format", "form", type=click.Choice(["table", "json"]), default="table")
def check(file: Path, names: tuple[str, ...], queue: str | None, jobspec: Path | None, form: str) -> None:
    """Check the tracing policy in FILE, a Flux configuration, without a Flux instance.

    Prints the settings that would be in effect, or the message with which Flux would reject the file, and for each
    --job whether it is traced, its stage and its run directory.

    \b
        tailrace flux check tailrace.toml --job sim_12 --job analyze --queue batch
    """
    from tailrace.flux import check as policy

    jobspecs = [policy.named_job(name, queue) for name in names]
    labels = list(names)
    try:
        if jobspec is not None:
            jobspecs.append(json.loads(jobspec.read_text(encoding="utf-8")))
            labels.append(str(jobspec))
        checked = policy.check(policy.read_configuration(file), jobspecs)
    except OSError as error:
        raise UsageError(f"can't read {error.filename}: {error.strerror}") from error
    except json.JSONDecodeError as error:
        raise UsageError(f"{jobspec} is no jobspec: {error}") from error
    except UsageError as error:
        raise UsageError(f"{file}: {error}") from error
    if form == "json":
        click.echo(json.dumps({"settings": checked.settings, "jobs": checked.jobs}, indent=1))
        return
    from tailrace.cli.lines import render

    render(["key", "value"], [[key, json.dumps(value)] for key, value in checked.settings.items()], numbers=False)
    rows = [[label, *_verdict(job)] for label, job in zip(labels, checked.jobs, strict=True)]
    if rows:
        click.echo()
        render(["job", "traced", "stage", "run"], rows, numbers=False)


def _verdict(job: dict[str, Any]) -> list[str]:
    if job["verdict"] == "trace":
        return ["yes", str(job["event"]["tags"].get("stage", "")), str(job["event"]["run"])]
    return ["no" if job["verdict"] == "leave" else f"rejected: {job['fault']}", "", ""]
