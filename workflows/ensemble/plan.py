"""The campaign as data: what its files are called, which steps a round has, and what each waits for.

    macro -> select -> micro [ simulate (x8) -> analyze (x8) ] -> reduce -> learn
      ^        ^                                                    |         |
      |        +------------------- selector/model.pkl --------------(---------+
      +---------------------------- feedback/eos.json ---------------+

campaign.py runs it under Flux, run_local.py without.
"""

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path

ROUNDS = 3
SIMULATIONS = 8
PATCHES = 12
"""Patches along each side of the macro model."""
HERE = Path(__file__).resolve().parent


class Files:
    """The names of the campaign's files in its folder."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.state = self.folder / "macro" / "state.npy"
        self.model = self.folder / "selector" / "model.pkl"
        self.observations = self.folder / "feedback" / "observations.csv"
        self.equation = self.folder / "feedback" / "eos.json"

    def patches(self, number):
        return self.folder / "patches" / str(number)

    def picks(self, number):
        return self.folder / "selector" / f"picks-{number}.json"

    def simulation(self, number, position):
        return self.folder / "micro" / str(number) / str(position)

    def log(self, name):
        return self.folder / "logs" / f"{name}.log"

    @staticmethod
    def make(*folders):
        for folder in folders:
            folder.mkdir(parents=True, exist_ok=True)

    def summary(self, rounds):
        """What the campaign found, JSON-ready."""
        found = json.loads(self.equation.read_text())
        picks = [json.loads(self.picks(number).read_text()) for number in range(1, rounds + 1)]
        return {"simulations": len(self.observations.read_text().splitlines()), "picks": picks, **found}


@dataclass(frozen=True)
class Step:
    """One job: its name (unique in the campaign), its stage, its round, its command, and the names of the steps that
    must be done before."""

    name: str
    stage: str
    round: int
    command: tuple
    after: tuple = ()


def program(name, *arguments):
    return (sys.executable, str(HERE / name), *map(str, arguments))


def micro_steps(folder, number, position):
    """A simulation of a round and its analysis."""
    where = str(Files(folder).simulation(number, position))
    lammps = ("lmp", "-in", str(HERE / "fluid.in"), "-var", "folder", where)
    quiet = ("-log", f"{where}/log.lammps", "-screen", "none")
    simulation = Step(f"simulate-{number}-{position}", "simulate", number, (*lammps, *quiet))
    command = program("analyze.py", where)
    return simulation, Step(f"analyze-{number}-{position}", "analyze", number, command, (simulation.name,))


def steps(folder, rounds=ROUNDS):
    """The steps of a campaign in an order in which they can run; one of stage `micro` stands for its `micro_steps`."""

    def step(stage, script, *after):
        return Step(f"{stage}-{number}", stage, number, program(script, folder, number), after)

    for number in range(1, rounds + 1):
        last = number - 1
        yield step("macro", "macro.py", *[f"reduce-{last}"] * (last > 0))
        yield step("select", "choose.py", f"macro-{number}", *[f"learn-{last}"] * (last > 0))
        yield step("micro", "micro.py", f"select-{number}")
        yield step("reduce", "reduce.py", f"micro-{number}")
        yield step("learn", "learn.py", f"reduce-{number}")


def single_threaded():
    """Tells the numerical libraries of all steps not to start a thread for each core: steps run side by side."""
    os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
