"""Trains the selector: a Gaussian process for the pressure, through all that was simulated so far.

    python learn.py FOLDER ROUND

reads feedback/observations.csv and selector/model.pkl (not in the first round: its kernel is where the search
for a better one begins); replaces selector/model.pkl in place
"""

import pickle
import sys

import numpy as np
import plan
from choose import SCALE
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

NOISE = 1e-2
"""Variance of a simulated pressure beside that of all of them."""


def main():
    files, number = plan.Files(sys.argv[1]), int(sys.argv[2])
    density, temperature, pressure, _ = np.loadtxt(files.observations, delimiter=",").T
    kernel = ConstantKernel(1.0, (1e-2, 1e3)) * RBF([2.0, 4.0], (0.3, 100.0))
    if number > 1:
        with files.model.open("rb") as stored:
            kernel = pickle.load(stored).kernel_
    model = GaussianProcessRegressor(kernel, alpha=NOISE, normalize_y=True, random_state=0)
    model.fit(np.column_stack((density, temperature)) / SCALE, pressure)
    with files.model.open("wb") as stored:
        pickle.dump(model, stored)


if __name__ == "__main__":
    main()
