"""A Dask cluster as one Flux job: `with cluster(4): ...` and whatever Dask computes inside runs there.

    this process                              the Flux job, N tasks
    submits, waits for `address` in a         task 0: the scheduler and a worker; writes `address`
    scratch directory, connects a client      task n: a worker, once `address` is there

What always holds: the job ends. Left normally or by an error or Ctrl-C, it is told to close and cancelled when it
doesn't; and when this process is killed, the scheduler sees that its client is gone and ends by itself. The scheduler
would run any code that it is sent, so it speaks TLS only, with a key made for this one cluster, in a directory of the
user's own. That directory must be on a file system that the job's nodes share.
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

ADDRESS, KEYS, OUTPUT = "address", "keys.json", "output"
CLIENT_GONE_S = 15.0
"""How long the scheduler goes on without a client, once it has had one."""
FIRST_CLIENT_S = 120.0
"""How long it waits for one: a network file system may tell of its address a minute late."""
CLOSING_S = 20.0
"""How long scheduler and worker may take to close once they are not needed; then their process ends."""
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

    scratch: a directory that the job's nodes share; a new one is made in it, and removed in the end. say: is told what
    is waited for. Raises UsageError for a number below 1; ManagerError when Dask is missing or the job doesn't run.
    """
    if workers < 1:
        raise UsageError(f"{workers} workers can't work: --flux-workers takes a number from 1 on")
    client_class = _distributed().Client
    program = find_flux(flux)
    place = Path(tempfile.mkdtemp(prefix=".dask-", dir=scratch)).absolute()
    job = None
    try:
        with _terminated_as_interrupted():
            security = _make_keys(place / KEYS)
            job = _submit(program, workers, place)
            say(f"Flux job {job} is to run {workers} Dask workers")
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
        raise ManagerError(f"Dask workers in Flux need more ({error}): pip install 'tailrace[flux]'") from error
    return distributed


@contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """SIGTERM and SIGHUP raise KeyboardInterrupt here, so that they end the job, too."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before: dict[int, Any] = {}
    try:
        for number in (signal.SIGTERM, signal.SIGHUP):
            # Only the main thread may set handlers; another one's caller has to see to its signals.
            with suppress(ValueError):
                before[number] = signal.signal(number, interrupt)
        yield
    finally:
        for signalled, handler in before.items():
            signal.signal(signalled, handler)


def _make_keys(path: Path) -> Any:
    """A key and certificate for this cluster alone, as distributed's Security; `path` has them for the job's tasks."""
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
    # The analysis must not become part of what is analysed.
    command += ["--setattr=user.trace=false", "-oexit-timeout=10s", f"--output={place / OUTPUT}", f"--cwd={place}"]
    command += [sys.executable, "-m", "tailrace.flux.analysis", str(place)]
    done = _flux(command)
    if done.returncode:
        raise ManagerError(f"Flux doesn't take the analysis job: {_last_line(done.stderr)}")
    return done.stdout.strip()


def _wait_for_address(flux: Path, job: str, place: Path, say: Callable[[str], None]) -> str:
    """The scheduler's address, once the job has written it. Raises ManagerError when the job ends instead."""
    told = ""
    while True:
        with suppress(FileNotFoundError):
            return (place / ADDRESS).read_text()
        state = _flux([str(flux), "jobs", "-no", "{state} {exception.note}", job]).stdout.strip()
        if state.startswith(("CLEANUP", "INACTIVE")):
            time.sleep(_POLL_S)  # its output may be on its way through a network file system
            output = place / OUTPUT
            said = _last_line(output.read_text(errors="replace")) if output.exists() else ""
            raise ManagerError(
                f"Flux job {job} ended before Dask had begun: {said or state.partition(' ')[2] or state}"
            )
        if state.startswith("SCHED") and told != state:
            told = state
            say(f"Flux job {job} waits for free cores")
        time.sleep(_POLL_S)


def _end(flux: Path, job: str) -> None:
    """Waits a little for the job to end, cancels it when it doesn't. Never raises."""
    with suppress(OSError, subprocess.SubprocessError):
        waiting = [str(flux), "job", "wait-event", "--quiet"]
        if _flux([*waiting, "--timeout=3", job, "clean"]).returncode:
            _flux([str(flux), "cancel", job])
            _flux([*waiting, "--timeout=30", job, "clean"])


def _flux(command: list[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=_STEP_S, encoding="utf-8")
    except subprocess.TimeoutExpired as error:
        raise ManagerError(f"`{' '.join(command[:2])}` gave no answer within {_STEP_S} s") from error


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else ""


# --- in the job ------------------------------------------------------------------------------------------------------


async def serve(place: Path, rank: int) -> None:
    """A task of the job: a worker, and in task 0 the scheduler beside it, until that closes."""
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
                    _end_in_any_case()
        else:
            address = await _address(place / ADDRESS)
            async with Worker(address, nthreads=1, security=security, local_directory=local) as worker:
                await worker.finished()
    finally:
        shutil.rmtree(local, ignore_errors=True)


def _end_in_any_case() -> None:
    """Ends this process soon, whatever Dask still waits for when it closes; Flux ends the job's other tasks then."""
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
    """An event that is set when the scheduler gets its first client, however shortly that stays."""
    from distributed import SchedulerPlugin

    came = threading.Event()

    class Watch(SchedulerPlugin):  # type: ignore[misc]
        def add_client(self, *_: Any, **__: Any) -> None:
            came.set()

    scheduler.add_plugin(Watch())
    return came


async def _until_unused(scheduler: Any, had_client: threading.Event) -> None:
    """Returns when the scheduler is closed, or its client has gone, or none has come."""
    last = time.monotonic()
    while scheduler.status.name == "running":
        # "fire-and-forget" is always among the clients.
        if len(scheduler.clients) > 1:
            last = time.monotonic()
        if time.monotonic() - last > (CLIENT_GONE_S if had_client.is_set() else FIRST_CLIENT_S):
            return
        await asyncio.sleep(_POLL_S)


def main() -> None:
    """`python -m tailrace.flux.analysis PLACE`, as a task of the job."""
    asyncio.run(serve(Path(sys.argv[1]), int(os.environ["FLUX_TASK_RANK"])))


if __name__ == "__main__":
    main()
