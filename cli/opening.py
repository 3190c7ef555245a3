"""Opening a run for a subcommand: what waits for it in this node's journals is recovered first, and said on stderr."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

import tailrace
from tailrace.analyzer.util.formatting import bytes_text, count_text
from tailrace.errors import ManagerError, RunError
from tailrace.integrations.messages import say
from tailrace.integrations.recovery import Recovered, recover

if TYPE_CHECKING:
    from tailrace.analyzer.run import Run
    from tailrace.analyzer.runstore.store import Store


_Command = TypeVar("_Command", bound=Callable[..., Any])


def strict_option(function: _Command) -> _Command:
    """`--strict`, for `open_run`."""
    return click.option("--strict", is_flag=True, help="Fail if anything of the run is missing or can't be read.")(
        function
    )


def open_run(directory: Path, strict: bool | None = None) -> "Run":
    """`tailrace.open` after recovering the run's journals on this node. Raises as it does.

    strict: of a command whose output says nothing of what is missing. Then that is said on stderr, at once and for
    damaged blocks when the command has read them; with True it is a RunError.
    """
    directory = run_directory(directory)
    found = recover(directory)
    if found is not None:
        for line in lines(found):
            say(line)
        if strict and (found.failed or found.unreadable or found.waiting or found.fault):
            raise RunError(f"{directory}: not all of it is sealed")
    run = tailrace.open(directory)
    if strict is not None:
        _say_problems(run, strict)
    return run


def run_directory(given: Path) -> Path:
    """`given`; where it does not exist and is the id of a job of the surrounding Flux instance, that job's run. Raises
    RunError."""
    from tailrace.flux import job_run

    if not job_run.is_job_id(str(given)) or os.path.lexists(given):
        return given
    try:
        return job_run.find_run(str(given))
    except ManagerError as error:
        raise RunError(f"{given} is neither a directory nor a job of a Flux instance here: {error}") from error


def say_store_problems(store: "Store", strict: bool = False) -> None:
    """Says on stderr what of a store is not in its tables; with `strict` that is a RunError."""
    if strict and store.problems:
        raise RunError(f"{store.path} is incomplete: {'; '.join(store.problems)}")
    for text in store.problems:
        say(f"incomplete: {text}")


def _say_problems(run: "Run", strict: bool) -> None:
    from tailrace.analyzer.store import problems

    known, context = run.problems, click.get_current_context(silent=True)
    if strict:
        problems.refuse()
        if context is not None:
            context.call_on_close(lambda: problems.refuse(False))
        if known:
            raise RunError(f"{run.path} is incomplete: {'; '.join(known)}")
    for text in known:
        say(f"incomplete: {text}")
    if context is not None:
        context.call_on_close(lambda: _say_new(run, known))


def _say_new(run: "Run", known: list[str]) -> None:
    for text in run.problems:
        if text not in known:
            say(f"incomplete: {text}")


def lines(found: Recovered) -> Iterator[str]:
    """What was recovered and what was not, a sentence each; none where no journal waited."""
    if found.gone:
        yield from _gone(found)
        return
    if found.journals:
        journals = count_text(found.journals, "journal")
        yield f"recovered {count_text(found.events, 'event')} from {journals} of processes that had ended"
    if lost := sum(found.lost.values()):
        causes = ", ".join(f"{count} {cause}" for cause, count in found.lost.most_common())
        yield f"{count_text(lost, 'event')} in journals of processes that had ended are LOST ({causes})"
    if found.alive:
        who = "it has" if found.alive == 1 else "they have"
        yield f"{count_text(found.alive, 'process', 'es')} still running: what {who} not written yet is not in here"
    yield from _not_recovered(found)


def _gone(found: Recovered) -> Iterator[str]:
    journals = f"{count_text(found.journals, 'journal')} of it"
    if found.removed:
        yield f"the run is gone: removed {journals}"
    else:
        yield (
            f"the run is gone: {journals}, {bytes_text(found.bytes)}, remain here: `tailrace seal --all --remove`"
            " removes them"
        )
    if found.alive:
        yield f"{count_text(found.alive, 'process', 'es')} of it still running"
    yield from _not_recovered(found)


def _not_recovered(found: Recovered) -> Iterator[str]:
    if found.failed:
        events, journals = count_text(found.failed_events, "event"), count_text(found.failed, "journal")
        yield f"{events} of {journals} are not in here, because {found.run} is not writable: make room and repeat this"
    if found.unreadable:
        journals = count_text(found.unreadable, "journal")
        yield f"{journals} of another version of tailrace can't be read: run the `tailrace seal` of that version"
    if found.refused:
        yield f"{count_text(found.refused, 'journal')} of no process of this run: left alone"
    if found.waiting:
        journals = count_text(found.waiting, "journal")
        yield f"{journals} of user {found.user} on this node are not in here: run `tailrace seal --all` first"
    if found.fault:
        yield f"the journals can't be recovered: {found.fault}"
