"""The selector: which patches of a round are worth a micro simulation.

In the first round nothing is known: k centres, each the patch that is farthest from those chosen before (Gonzalez
1985). Then a Gaussian process (learn.py) says where it knows the pressure least; a patch that is chosen counts as known
before the next one is, so that a round doesn't look at one spot many times.

    python choose.py FOLDER ROUND

reads patches/ROUND/*.npy and selector/model.pkl (not in the first round); writes selector/picks-ROUND.json and
micro/ROUND/*/patch.in
"""

import json
import pickle
import sys

import numpy as np
import plan
from scipy.spatial.distance import cdist

DENSITIES = (0.05, 0.9)
"""What a fluid of these temperatures can have; a patch beyond is simulated at the bound."""
SCALE = np.array([0.1, 0.05])
"""By how much density and temperature must differ to count alike."""


def features(folder):
    """Mean density and temperature of each patch of a round, shape (patches, 2), in the order of their names."""
    fields = np.stack([np.load(path) for path in sorted(folder.glob("*.npy"))])
    means = fields.mean(axis=(2, 3))
    means[:, 0] = means[:, 0].clip(*DENSITIES)
    return means


def centres(points, count):
    """Positions of `count` points, the first the nearest to the mean, each other the farthest from those before."""
    scaled = points / SCALE
    chosen = [int(np.argmin(cdist(scaled, scaled.mean(axis=0, keepdims=True))))]
    while len(chosen) < count:
        chosen.append(int(np.argmax(cdist(scaled, scaled[chosen]).min(axis=1))))
    return chosen


def uncertain(points, count, model):
    """Positions of `count` points where the Gaussian process knows least, each counted as known for the next."""
    known, scaled = model.X_train_, points / SCALE
    chosen = []
    for _ in range(count):
        kernel = model.kernel_(known) + model.alpha * np.eye(len(known))
        cross = model.kernel_(scaled, known)
        variance = model.kernel_.diag(scaled) - np.einsum("ij,ji->i", cross, np.linalg.solve(kernel, cross.T))
        variance[chosen] = -np.inf
        chosen.append(int(np.argmax(variance)))
        known = np.vstack((known, scaled[chosen[-1]]))
    return chosen


def main():
    files, number = plan.Files(sys.argv[1]), int(sys.argv[2])
    points = features(files.patches(number))
    if number == 1:
        chosen = centres(points, plan.SIMULATIONS)
    else:
        with files.model.open("rb") as stored:
            chosen = uncertain(points, plan.SIMULATIONS, pickle.load(stored))
    files.make(files.picks(number).parent)
    for position, patch in enumerate(chosen):
        folder = files.simulation(number, position)
        files.make(folder)
        density, temperature = points[patch]
        lines = (("density", density), ("temperature", temperature), ("seed", 1000 * number + position + 1))
        (folder / "patch.in").write_text("".join(f"variable {name} equal {value}\n" for name, value in lines))
    files.picks(number).write_text(json.dumps(chosen) + "\n")


if __name__ == "__main__":
    main()
