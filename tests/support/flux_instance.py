"""Private Flux instances for tests: found, started, asked and ended here, with a limit of time on each step.

Flux is looked for in $FLUX, on PATH, and by pkg-config. Without it tests skip with the reason; with
TAILRACE_REQUIRE_FLUX=1 they fail. (No folder of tests is named `flux`: Python would take it for the bindings.)
"""

import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from support import sanitizer
from tailrace import installation

START_S = 60
STEP_S = 60

# What an outer instance or run, or the one who runs the tests, has set is none of the test's business.
_FOREIGN = ("FLUX_", "TAILRACE_", "LD_PRELOAD", "SLURM_", "PMI_", "PMIX_")


def find_flux() -> Path | None:
    """The `flux` program, or None."""
    named = os.environ.get("FLUX") or shutil.which("flux")
    if named:
        return Path(named).absolute() if Path(named).is_file() else None
    if shutil.which("pkg-config"):
        asked = ["pkg-config", "--variable=prefix", "flux-core"]
        found = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=STEP_S)
        program = Path(found.stdout.strip() or "/nonexistent") / "bin" / "flux"
        return program if program.is_file() else None
    return None


def missing(reason: str) -> None:
    """Skips the test for `reason`; fails it where Flux was asked for by TAILRACE_REQUIRE_FLUX=1."""
    if os.environ.get("TAILRACE_REQUIRE_FLUX") == "1":
        pytest.fail(f"{reason}, and TAILRACE_REQUIRE_FLUX=1", pytrace=False)
    pytest.skip(reason)


def require_flux() -> Path:
    """The `flux` program; skips or fails without."""
    flux = find_flux()
    if flux is None:
        missing("no Flux: it is in none of $FLUX, PATH, pkg-config's flux-core")
    assert flux is not None
    return flux


def clean_environment(flux: Path, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process's environment without Flux's and tailrace's variables, Flux first on PATH, and `extra`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_FOREIGN)}
    path = f"{flux.parent}:{kept.get('PATH', '/usr/bin:/bin')}"
    given = extra or {}
    # The sanitizers' runtimes refuse the flag with which Flux loads plugins, which this turns off.
    loading = {"FLUX_LOAD_WITH_DEEPBIND": "0"} if sanitizer.CHOSEN else {}
    preloading = sanitizer.variables(given.get("LD_PRELOAD", ""))
    return {**kept, "PATH": path, "LC_ALL": "C.UTF-8", **given, **loading, **preloading}


class FluxInstance:
    """A running instance of `size` brokers on this machine; ended by `stop`.

    options: further words for `flux start`, `-Sstatedir=DIR` say. env: added to the brokers' and commands' environment.
    owner: whose instance it is, and guests are let in; only root can start another user's. Commands are the caller's.
    """

    def __init__(
        self,
        flux: Path,
        size: int = 1,
        options: Sequence[str | Path] = (),
        env: Mapping[str, str] | None = None,
        cwd: str | Path | None = None,
        owner: str | None = None,
    ) -> None:
        self.flux = flux
        # Short, as sockets lie in it; its own, so that a killed instance leaves nothing behind.
        self._scratch = tempfile.mkdtemp(prefix="flux-test-")
        if owner:
            # Guests' shells make their jobs' folders there.
            Path(self._scratch).chmod(0o1777)
        self.env = {**clean_environment(flux, env), "TMPDIR": self._scratch}
        self.cwd = cwd
        words = [flux, "start", f"-s{size}", *options, "--", "sh", "-c", 'echo "$FLUX_URI"; exec cat >/dev/null']
        self.process = subprocess.Popen(
            [str(word) for word in words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self.env,
            cwd=cwd,
            # A session of its own: close() kills its brokers and shells, and no other process.
            start_new_session=True,
            user=owner,
            extra_groups=[] if owner else None,
        )
        self.uri = self._read_uri()
        if owner:
            Path(self.uri.removeprefix("local://")).parent.chmod(0o755)
        self.env["FLUX_URI"] = self.uri

    def _read_uri(self) -> str:
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], START_S)
        uri = self.process.stdout.readline().decode().strip() if ready else ""
        if not uri:
            self.kill()
            _, stderr = self.process.communicate(timeout=STEP_S)
            pytest.fail(f"flux start gave no URI: {stderr.decode(errors='replace')[-3000:]}", pytrace=False)
        return uri

    def run(
        self, *words: str | Path | int, timeout: float = STEP_S, check: bool = True, **options: Any
    ) -> subprocess.CompletedProcess[str]:
        """`flux WORDS...` in this instance. check: a failure fails the test. options: as of subprocess.run."""
        command = [str(self.flux), *map(str, words)]
        options = {"capture_output": True, "text": True, "env": self.env, "cwd": self.cwd, **options}
        if "input" not in options:
            options.setdefault("stdin", subprocess.DEVNULL)
        done = subprocess.run(command, check=False, timeout=timeout, **options)
        if check and done.returncode:
            pytest.fail(f"{' '.join(command)} ended with {done.returncode}\n{done.stdout}{done.stderr}", pytrace=False)
        return done

    def ask(self, *words: str | Path | int, **options: Any) -> str:
        """The stripped standard output of `flux WORDS...`."""
        return str(self.run(*words, **options).stdout).strip()

    def submit(self, *words: str | Path | int, **options: Any) -> str:
        """The id of a job submitted by `flux submit WORDS...`."""
        return self.ask("submit", *words, **options)

    def wait(self, job: str, event: str = "clean", timeout: float = STEP_S) -> None:
        """Waits until `event` is in the job's eventlog."""
        self.run("job", "wait-event", f"--timeout={timeout}", job, event, timeout=timeout + 10)

    def events(self, job: str, name: str | None = None) -> list[dict[str, Any]]:
        """The job's eventlog (or its events called `name`): dicts of timestamp, name, context."""
        lines = self.ask("job", "eventlog", "--format=json", job).splitlines()
        return [event for event in map(json.loads, lines) if name in (None, event["name"])]

    def stop(self) -> int:
        """Ends the instance; returns the exit code of `flux start`. Again: does nothing more."""
        if self.process.poll() is None:
            assert self.process.stdin is not None
            self.process.stdin.close()
            try:
                self.process.wait(timeout=START_S)
            except subprocess.TimeoutExpired:
                self.kill()
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()
        shutil.rmtree(self._scratch, ignore_errors=True)
        return self.process.wait(timeout=STEP_S)

    def kill(self) -> None:
        """Kills the brokers as a power cut would."""
        for pid in self.broker_pids():
            os.kill(pid, signal.SIGKILL)
        try:
            self.process.wait(timeout=START_S)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(timeout=START_S)

    def broker_pids(self) -> list[int]:
        """The processes of the brokers that `flux start` has started."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        try:
            return [int(word) for word in children.read_text().split()]
        except FileNotFoundError:
            return []


@dataclass(frozen=True)
class FluxPlugins:
    """Where the installed package has what Flux loads."""

    root: Path

    @property
    def jobtap(self) -> Path:
        return self.root / "lib" / "jobtap" / "tailrace-jobtap.so"

    @property
    def shell_folder(self) -> Path:
        return self.root / "lib" / "shell"

    @property
    def rc_folder(self) -> Path:
        """For FLUX_SHELL_RC_PATH."""
        return self.root / "etc" / "shell"

    @property
    def library(self) -> Path:
        return self.root.parent / "lib" / "libtailrace.so"


def require_plugins(package: Path | None = None) -> FluxPlugins:
    """The plugins of the package in that folder, or of the installed one; skips or fails without."""
    require_flux()
    plugins = FluxPlugins((package or installation.PACKAGE) / "flux")
    if not plugins.jobtap.is_file():
        missing("tailrace was installed where CMake found no Flux by pkg-config, so without the Flux plugins")
    return plugins


def start_traced(flux: Path, plugins: FluxPlugins, *conf: str, **arguments: Any) -> FluxInstance:
    """An instance with both plugins loaded; conf: KEY=VALUE for the jobtap plugin. arguments: as of FluxInstance."""
    builtin = [str(flux), "config", "builtin", "shell_pluginpath"]
    own = subprocess.run(builtin, capture_output=True, text=True, check=True, timeout=STEP_S).stdout.strip()
    options = [*arguments.pop("options", ()), f"-Sconf.shell_pluginpath={own}:{plugins.shell_folder}"]
    instance = FluxInstance(flux, options=options, **arguments)
    try:
        instance.run("jobtap", "load", plugins.jobtap, *conf)
    except BaseException:
        instance.stop()
        raise
    return instance
