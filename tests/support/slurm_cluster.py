"""A private Slurm cluster of two nodes on this machine: slurmctld and two slurmd, on free ports, in its own folder.

Needs root, and Slurm's programs (Debian: slurm-wlm). It takes no munge, no database and nothing outside of its folder.
Every wait has a limit.
"""

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from support.ports import free_ports
from tailrace.slurm import PLUGIN

START_S = 120
STEP_S = 180
NODES = ("one", "two")
_PROGRAMS = ("slurmctld", "slurmd", "srun", "sbatch", "scontrol", "squeue", "scancel", "sinfo")
# What an outer job or run has set is none of the test's business.
_FOREIGN = ("FLUX_", "TAILRACE_", "LD_PRELOAD", "SLURM_", "SBATCH_", "PMI_", "PMIX_")

_CONFIGURATION = """
ClusterName=tests
SlurmctldHost={host}(127.0.0.1)
AuthType=auth/none
CredType=cred/none
SlurmUser=root
SlurmdUser=root
SlurmctldPort={ports[0]}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
SchedulerParameters=sched_min_interval=0,batch_sched_delay=0,bf_interval=1
ReturnToService=2
KillWait=2
PlugStackConfig={folder}/plugstack.conf
NodeName=one NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=8
NodeName=two NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs=8
PartitionName=main Nodes=one,two Default=YES State=UP
"""


def missing_for_slurm() -> str:
    """Why no cluster can be started here, or "" where one can."""
    missing = [program for program in _PROGRAMS if shutil.which(program) is None]
    if missing:
        return f"no Slurm: {', '.join(missing)} not on PATH"
    return "" if PLUGIN.is_file() else "tailrace was installed without Slurm's headers: no tailrace-spank.so"


def wait_until(condition: Callable[[], Any], what: str, limit_s: float = STEP_S) -> Any:
    """The condition's first true value; fails the test when it stays false."""
    end = time.monotonic() + limit_s
    while not (value := condition()):
        if time.monotonic() > end:
            pytest.fail(f"{what}: not within {limit_s:g} s", pytrace=False)
        time.sleep(0.05)
    return value


class SlurmCluster:
    """A running cluster. `folder` is open to all users, as is every folder above it that it makes."""

    def __init__(self, folder: Path) -> None:
        if reason := missing_for_slurm():
            pytest.skip(reason)
        self.folder = folder
        for name in ("state", *(f"spool/{node}" for node in NODES)):
            (folder / name).mkdir(parents=True)
        host = socket.gethostname().partition(".")[0]
        (folder / "slurm.conf").write_text(_CONFIGURATION.format(host=host, ports=free_ports(3), folder=folder))
        self.configure()
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith(_FOREIGN)}
        self.environment["SLURM_CONF"] = str(folder / "slurm.conf")
        self._daemons: list[subprocess.Popen[bytes]] = []
        try:
            self._start("slurmctld", "-c", "-D")
            for node in NODES:
                self._start("slurmd", "-N", node, "-D")
            asked = ("sinfo", "-h", "-N", "-o", "%T")
            wait_until(lambda: self._quiet(*asked).split() == ["idle"] * len(NODES), "two idle nodes", START_S)
        except BaseException:
            self.stop()
            raise

    def configure(self, *policy: str) -> None:
        """The facility's policy, for steps and submissions from now on."""
        (self.folder / "plugstack.conf").write_text(f"optional {PLUGIN} {' '.join(policy)}\n")

    def _start(self, *command: str) -> None:
        output = (self.folder / f"{command[0]}-{command[-2]}.out").open("wb")
        with output:
            self._daemons.append(
                subprocess.Popen(command, env=self.environment, stdout=output, stderr=output, start_new_session=True)
            )

    def _quiet(self, *command: str) -> str:
        done = subprocess.run(
            command, env=self.environment, capture_output=True, text=True, check=False, timeout=STEP_S
        )
        return done.stdout

    def run(self, *command: str | Path, check: bool = True, **options: Any) -> "subprocess.CompletedProcess[str]":
        """A command with the cluster's configuration. options: subprocess.run's."""
        options = {"capture_output": True, "text": True, "timeout": STEP_S, "env": self.environment, **options}
        done = subprocess.run([str(word) for word in command], check=False, **options)
        if check and done.returncode:
            pytest.fail(f"{command}: exit code {done.returncode}\n{done.stdout}{done.stderr}", pytrace=False)
        return done

    def submit(self, *words: str | Path, **options: Any) -> str:
        """`sbatch`; the job's id."""
        return self.run("sbatch", "--parsable", *words, **options).stdout.strip()

    def wait_for_all(self) -> None:
        """Waits until no job is left."""

        def none_left() -> bool:
            # A controller that has much to do may not answer in time.
            asked = self.run("squeue", "-h", check=False)
            return asked.returncode == 0 and not asked.stdout.strip()

        wait_until(none_left, "the end of all jobs")

    def step_daemon(self, step: str) -> int:
        """The pid of the slurmstepd of a step, 12.0."""

        def find() -> int:
            for entry in Path("/proc").iterdir():
                if not entry.name.isdigit():
                    continue
                with suppress(OSError):
                    named = (entry / "cmdline").read_bytes().startswith(f"slurmstepd: [{step}]".encode())
                    if named and self._is_ours(entry):
                        return int(entry.name)
            return 0

        return int(wait_until(find, f"slurmstepd of {step}"))

    def _is_ours(self, entry: Path) -> bool:
        """Whether a daemon (/proc/PID) has a file of this cluster open: another process of pytest may have a cluster
        with jobs of the same numbers."""
        return any(file.readlink().is_relative_to(self.folder) for file in (entry / "fd").iterdir())

    def stop(self) -> None:
        """Ends all jobs and the daemons."""
        with suppress(subprocess.SubprocessError, OSError):
            self._quiet("scancel", "--full", "--signal=KILL", "--user=root")
        for daemon in reversed(self._daemons):
            daemon.send_signal(signal.SIGTERM)
        for daemon in self._daemons:
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
