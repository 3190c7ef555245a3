"""What a round's simulations say together: their results join those of the rounds before, and a new equation of state
is fitted through all of them, for the macro model.

    python reduce.py FOLDER ROUND

reads micro/ROUND/*/result.json and feedback/observations.csv; adds to feedback/observations.csv, replaces
feedback/eos.json
"""

import json
import sys

import numpy as np
import plan
from state import Equation

COLUMNS = ("density", "temperature", "pressure", "diffusion")


def main():
    files, number = plan.Files(sys.argv[1]), int(sys.argv[2])
    files.make(files.observations.parent)
    with files.observations.open("a") as table:
        for position in range(plan.SIMULATIONS):
            found = json.loads((files.simulation(number, position) / "result.json").read_text())
            table.write(",".join(str(found[name]) for name in COLUMNS) + "\n")
    Equation.fit(*np.loadtxt(files.observations, delimiter=",").T).write(files.equation)


if __name__ == "__main__":
    main()
