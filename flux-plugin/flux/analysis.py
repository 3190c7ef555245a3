"""A Dask cluster as one Flux job: Dask computations inside `with cluster(4): ...` run there.

    this process                              the Flux job, N tasks
    submits, waits for `address` in a         task 0: the scheduler and a worker; writes `address`
    scratch directory, connects a client      task n: a worker, once `address` is there

Invariants: the job ends. After a normal end, an error or Ctrl-C it is shut down, and cancelled if it does not close;
when this process is killed, the scheduler loses its client and ends itself. The scheduler executes any code sent to
it, so it accepts TLS only, with a key made for this cluster, in a directory that only the user can read. That directory
must be on a file system that the job's nodes share.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

from tailrace.errors import ManagerError, UsageError
from tailrace.flux.collect import find_flux
from tailrace.integrations import programs

ADDRESS, KEYS, OUTPUT = "address", "keys.json", "output"
CLIENT_GONE_S = 15.0
"""How long the scheduler stays after its last client left."""
FIRST_CLIENT_S = 120.0
"""How long it waits for the first one: a network file system may show its address a minute late."""
CLOSING_S = 20.0
"""How long scheduler and worker may take to close; then their process ends."""
_TLS_PARTS = ("cert", "key")
_POLL_S = 0.2
_STEP_S = 60


@contextmanager
def cluster(
    workers: int,
    scratch: str | Path,
    flux: str | Path | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> Iterator[Any]:
    """A distributed.Client of `workers` Dask workers (of one core each) in one Flux job; Dask's default meanwhile.

    scratch: a directory that the job's nodes share; holds a temporary directory during the analysis. say: called with
    each progress message. Raises UsageError for a number below 1; ManagerError when Dask is missing or the job fails.
    """
    if workers < 1:
        raise UsageError(f"--flux-workers is {workers}: give a number from 1 on")
    client_class = _distributed().Client
    program = find_flux(flux)
    place = Path(tempfile.mkdtemp(prefix=".dask-", dir=scratch)).absolute()
    job = None
    try:
        with _terminated_as_interrupted():
            security = _make_keys(place / KEYS)
            job = _submit(program, workers, place)
            say(f"submitted {workers} Dask workers as Flux job {job}")
            address = _wait_for_address(program, job, place, say)
            with client_class(address, security=security, timeout=_STEP_S) as client:
                client.wait_for_workers(workers, timeout=_STEP_S)
                yield client
                with suppress(Exception):
                    client.shutdown()
    finally:
        if job is not None:
            _end(program, job)
        shutil.rmtree(place, ignore_errors=True)


def _distributed() -> Any:
    try:
        import cryptography  # noqa: F401
        import distributed
    except ImportError as error:
        raise ManagerError(
            f"a package for Dask workers in Flux is missing ({error}): pip install 'tailrace[flux]'"
        ) from error
    return distributed


@contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """SIGTERM and SIGHUP raise KeyboardInterrupt, so that they end the job, too."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before: dict[int, Any] = {}
    try:
        for number in (signal.SIGTERM, signal.SIGHUP):
            # Only the main thread may set handlers; in another one, signals are the caller's task.
            with suppress(ValueError):
                before[number] = signal.signal(number, interrupt)
        yield
    finally:
        for signalled, handler in before.items():
            signal.signal(signalled, handler)


def _make_keys(path: Path) -> Any:
    """A new key and certificate as distributed's Security; written to `path` for the job's tasks."""
    security = _distributed().Security.temporary()
    names = [
        "tls_ca_file",
        *(f"tls_{role}_{part}" for role in ("client", "scheduler", "worker") for part in _TLS_PARTS),
    ]
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        json.dump({name: getattr(security, name) for name in names}, file)
    return security


def _submit(flux: Path, workers: int, place: Path) -> str:
    command = [str(flux), "submit", f"-n{workers}", "-c1", "--job-name=tailrace-analysis"]
    # The analysis itself must not be traced.
    command += ["--setattr=user.trace=false", "-oexit-timeout=10s", f"--output={place / OUTPUT}", f"--cwd={place}"]
    command += [*programs.module_command("tailrace.flux.analysis"), str(place)]
    done = _flux(command)
    if done.returncode:
        raise ManagerError(f"Flux rejected the analysis job: {_last_line(done.stderr)}")
    return done.stdout.strip()


def _wait_for_address(flux: Path, job: str, place: Path, say: Callable[[str], None]) -> str:
    """The scheduler's address, once the job has written it. Raises ManagerError when the job ends instead."""
    reported = ""
    while True:
        with suppress(FileNotFoundError):
            return (place / ADDRESS).read_text()
        state = _flux([str(flux), "jobs", "-no", "{state} {exception.note}", job]).stdout.strip()
        if state.startswith(("CLEANUP", "INACTIVE")):
            time.sleep(_POLL_S)  # a network file system may show the output late
            output = place / OUTPUT
            said = _last_line(output.read_text(errors="replace")) if output.exists() else ""
            raise ManagerError(f"Flux job {job} ended before Dask started: {said or state.partition(' ')[2] or state}")
        if state.startswith("SCHED") and reported != state:
            reported = state
            say(f"Flux job {job} is waiting for free cores")
        time.sleep(_POLL_S)


def _end(flux: Path, job: str) -> None:
    """Waits a few seconds for the job to end, then cancels it. Never raises."""
    with suppress(OSError, subprocess.SubprocessError):
        waiting = [str(flux), "job", "wait-event", "--quiet"]
        if _flux([*waiting, "--timeout=3", job, "clean"]).returncode:
            _flux([str(flux), "cancel", job])
            _flux([*waiting, "--timeout=30", job, "clean"])


def _flux(command: list[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=_STEP_S, encoding="utf-8")
    except subprocess.TimeoutExpired as error:
        raise ManagerError(
            f"`{' '.join(command[:2])}` did not answer within {_STEP_S} s: check that the broker runs"
        ) from error


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else ""


# --- in the job ------------------------------------------------------------------------------------------------------


async def serve(place: Path, rank: int) -> None:
    """A task of the job: a worker, in task 0 also the scheduler, until that closes."""
    from distributed import Scheduler, Worker
    from distributed.security import Security

    security = Security(**json.loads((place / KEYS).read_text()), require_encryption=True)
    local = tempfile.mkdtemp(prefix="tailrace-dask-")
    try:
        if rank == 0:
            # Port 0: any free one; no dashboard, which would listen without TLS.
            async with Scheduler(port=0, protocol="tls", security=security, dashboard=False) as scheduler:
                had_client = _watch_clients(scheduler)
                _publish(place / ADDRESS, scheduler.address)
                async with Worker(scheduler.address, nthreads=1, security=security, local_directory=local):
                    await _until_unused(scheduler, had_client)
                    _exit_after_timeout()
        else:
            address = await _address(place / ADDRESS)
            async with Worker(address, nthreads=1, security=security, local_directory=local) as worker:
                await worker.finished()
    finally:
        shutil.rmtree(local, ignore_errors=True)


def _exit_after_timeout() -> None:
    """Ends this process after CLOSING_S even if Dask does not close; Flux then ends the job's other tasks."""
    timer = threading.Timer(CLOSING_S, os._exit, (0,))
    timer.daemon = True
    timer.start()


def _publish(path: Path, text: str) -> None:
    scratch = path.with_name(f".{path.name}")
    scratch.write_text(text)
    scratch.replace(path)


async def _address(path: Path) -> str:
    while not path.exists():
        await asyncio.sleep(_POLL_S)
    return path.read_text()


def _watch_clients(scheduler: Any) -> threading.Event:
    """An event that is set when the scheduler gets its first client, however briefly."""
    from distributed import SchedulerPlugin

    came = threading.Event()

    class Watch(SchedulerPlugin):  # type: ignore[misc]
        def add_client(self, *_: Any, **__: Any) -> None:
            came.set()

    scheduler.add_plugin(Watch())
    return came


async def _until_unused(scheduler: Any, had_client: threading.Event) -> None:
    """Returns when the scheduler closes, its client left, or none connected in time."""
    last = time.monotonic()
    while scheduler.status.name == "running":
        # "fire-and-forget" is always among the clients.
        if len(scheduler.clients) > 1:
            last = time.monotonic()
        if time.monotonic() - last > (CLIENT_GONE_S if had_client.is_set() else FIRST_CLIENT_S):
            return
        await asyncio.sleep(_POLL_S)


def main() -> None:
    """`python -m tailrace.flux.analysis PLACE`: a task of the job."""
    asyncio.run(serve(Path(sys.argv[1]), int(os.environ["FLUX_TASK_RANK"])))


if __name__ == "__main__":
    main()
