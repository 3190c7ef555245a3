"""`tailrace` commands that analyse, each in a process of its own, without the seconds that importing pandas takes.

    call()  --arguments, directory, environment, descriptors-->  server: has imported everything  --fork-->  main()
            <--exit code--

A process differs from a new one in what it has imported only. `CAN` says which calls may come here; the others, and all
that is about starting (imports, preloading, signals), belong in a process that is started (commands.py).
"""

import gc
import importlib
import json
import os
import pkgutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from io import TextIOWrapper
from pathlib import Path
from typing import IO, Any, cast

COMMANDS = {"compare", "declare", "export", "file", "graph", "index", "info", "query", "report", "sql"}
_ENCODING = ("PYTHONIOENCODING", "PYTHONUTF8")
"""Variables of a start that are followed here: standard streams have this encoding."""
_LARGEST_REQUEST = 200_000
_ENVIRONMENT = dict(os.environ)
"""Of the server, whatever a test has set when it is the first to need it."""


def can(arguments: Sequence[str], env: Mapping[str, str]) -> bool:
    """Whether the call is one of a command that analyses, with nothing in its environment that acts at a start."""
    return arguments[:1] != [] and arguments[0] in COMMANDS and _at_start(env) == _at_start(_ENVIRONMENT)


def _at_start(env: Mapping[str, str]) -> dict[str, str]:
    names = ("LANG", "LC_", "LD_", "PATH", "PYTHON")
    return {name: value for name, value in env.items() if name.startswith(names) and name not in _ENCODING}


def call(
    arguments: Sequence[str],
    cwd: str | os.PathLike[str],
    env: Mapping[str, str],
    timeout: float,
    stdout: IO[Any] | None = None,
) -> "subprocess.CompletedProcess[str]":
    """`tailrace ARGUMENTS...`, as subprocess.run with captured text; stdout: a file that takes the output instead.

    Raises subprocess.TimeoutExpired.
    """
    process, connection = _server()
    request = json.dumps({"arguments": list(arguments), "cwd": os.fspath(cwd), "env": dict(env)}).encode()
    assert len(request) < _LARGEST_REQUEST
    with Path(os.devnull).open() as given, tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        connection.settimeout(timeout)
        try:
            socket.send_fds(connection, [request], [given.fileno(), (stdout or out).fileno(), err.fileno()])
            code = int(connection.recv(32))
        except TimeoutError as error:
            _server.cache_clear()
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise subprocess.TimeoutExpired(arguments, timeout) from error
        for file in (out, err):
            file.seek(0)
        return subprocess.CompletedProcess(arguments, code, out.read(), err.read())


@cache
def _server() -> "tuple[subprocess.Popen[bytes], socket.socket]":
    """It ends when this process does, by the end of the connection."""
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with its:
        words = [sys.executable, str(Path(__file__)), str(its.fileno())]
        process = subprocess.Popen(words, pass_fds=[its.fileno()], env=_ENVIRONMENT, start_new_session=True)
    return process, ours


def _serve(connection: socket.socket) -> list[str] | None:
    """Forks for each request. Returns its arguments in the forked process, None when there are no more."""
    while True:
        request, descriptors, _, _ = socket.recv_fds(connection, _LARGEST_REQUEST, 3)
        if not request:
            return None
        child = os.fork()
        if child == 0:
            given = json.loads(request)
            for number, descriptor in enumerate(descriptors):
                os.dup2(descriptor, number)
                os.close(descriptor)
            os.chdir(given["cwd"])
            os.environ.clear()
            os.environ.update(given["env"])
            if encoding := os.environ.get("PYTHONIOENCODING"):
                for stream in (sys.stdout, sys.stderr):
                    cast(TextIOWrapper, stream).reconfigure(encoding=encoding)
            return [str(word) for word in given["arguments"]]
        for descriptor in descriptors:
            os.close(descriptor)
        _, status = os.waitpid(child, 0)
        connection.send(b"%d" % os.waitstatus_to_exitcode(status))


def _import_all() -> None:
    # Dask looks for a client of distributed, where that is installed.
    for name in ("dask.dataframe", "distributed", "jinja2", "networkx", "pandas", "pyarrow.parquet", "rich.console"):
        with suppress(ModuleNotFoundError):
            importlib.import_module(name)
    for package in ("tailrace.analyzer", "tailrace.cli"):
        for module in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
            importlib.import_module(module.name)
    # The folders in that of integrations are packages of their own, adapters, which may need their manager.
    package = "tailrace.integrations"
    for module in pkgutil.iter_modules(importlib.import_module(package).__path__, f"{package}."):
        if not module.ispkg:
            importlib.import_module(module.name)


if __name__ == "__main__":
    _import_all()
    from tailrace.cli import main

    gc.freeze()
    with socket.socket(fileno=int(sys.argv[1])) as its_end:
        words = _serve(its_end)
    if words is not None:
        sys.argv = [main.__file__, *words]
        main.main()
