"""The macro model: one round of a fluid that separates into liquid and vapour, on a grid.

    d(density)/dt = mobility * laplace(potential(density, temperature) - stiffness * laplace(density))

Cahn-Hilliard's equation by a stabilized semi-implicit spectral scheme (Zhu, Chen, Shen, Tikare: Phys. Rev. E 60, 3564,
1999). The equation of state is a guess in the first round; then it is what the micro simulations found (reduce.py).

    python macro.py FOLDER ROUND

reads macro/state.npy and feedback/eos.json (not in the first round); writes macro/state.npy and patches/ROUND/*.npy
"""

import sys

import numpy as np
import plan
from state import Equation

CELLS = 8 * plan.PATCHES
"""Along each side; a cell is as wide as an atom, so that a patch is about as wide as the box of a micro simulation."""
STEPS, DT = 1000, 0.1
STIFFNESS = 8.0
MEAN_DENSITY = 0.4
COLD, HOT = 0.9, 1.1


def temperature_field():
    """HOT in the middle and COLD at the (periodic) sides, shape (CELLS, CELLS)."""
    x = 2 * np.pi * np.arange(CELLS) / CELLS
    return np.tile((COLD + HOT) / 2 - (HOT - COLD) / 2 * np.cos(x), (CELLS, 1))


def first_density():
    """A uniform fluid with a little noise, shape (CELLS, CELLS)."""
    noise = np.random.default_rng(1).standard_normal((CELLS, CELLS))
    return MEAN_DENSITY + 0.02 * (noise - noise.mean())


def evolve(density, temperature, equation):
    """The density STEPS later; both fields have shape (CELLS, CELLS), in LJ units."""
    k = 2 * np.pi * np.fft.fftfreq(CELLS)
    squared = k[:, None] ** 2 + k[None, : CELLS // 2 + 1] ** 2
    rate = DT * MEAN_DENSITY * equation.diffusion * squared
    # Stable when it is at least half of the steepest slope of the potential.
    densities = np.linspace(0.01, 1.0, 200)
    slopes = [np.gradient(equation.potential(densities, t), densities) for t in (COLD, (COLD + HOT) / 2, HOT)]
    stabilizer = max(0.0, np.max(slopes) / 2)
    implicit = 1 + rate * (stabilizer + STIFFNESS * squared)
    for _ in range(STEPS):
        explicit = np.fft.rfft2(equation.potential(density, temperature) - stabilizer * density)
        density = np.fft.irfft2((np.fft.rfft2(density) - rate * explicit) / implicit, s=density.shape)
    return density


def main():
    files, number = plan.Files(sys.argv[1]), int(sys.argv[2])
    first = number == 1
    equation = Equation.guess() if first else Equation.read(files.equation)
    temperature = temperature_field()
    density = evolve(first_density() if first else np.load(files.state), temperature, equation)
    if not np.isfinite(density).all():
        sys.exit(f"macro.py: the density of round {number} is not finite; is {files.equation} sound?")
    files.make(files.state.parent, files.patches(number))
    np.save(files.state, density)
    fields = np.stack((density, temperature)).reshape(2, plan.PATCHES, 8, plan.PATCHES, 8)
    for row, column in np.ndindex(plan.PATCHES, plan.PATCHES):
        np.save(files.patches(number) / f"{row:02}-{column:02}.npy", fields[:, row, :, column])


if __name__ == "__main__":
    main()
