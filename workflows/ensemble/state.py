"""The equation of state that goes round the loop: the macro model moves by it, the micro simulations correct it."""

import json
from dataclasses import dataclass

import numpy as np

POWERS = np.arange(2, 6)
GUESSED_VIRIALS = np.array([-5.3, -1.7, 6.5, 5.5])
"""The second is a Lennard-Jones gas's at temperature 1; the others give a liquid of density 0.7 without pressure."""
GUESSED_DIFFUSION = 0.3
GUESSED_DENSITIES, GUESSED_TEMPERATURES = np.linspace(0.1, 1.0, 10), np.array([0.85, 1.0, 1.15])
GUESS_WEIGHT = 0.2
"""How much a guessed point counts beside a simulated one: a polynomial runs away where nothing holds it."""
THIN = 0.02
"""Below this density the chemical potential goes on straight, so that an overshoot of the macro model comes back."""


@dataclass(frozen=True)
class Equation:
    """pressure = density * temperature + sum over POWERS k of (virials[k, 0] + virials[k, 1] * temperature) * density^k

    and the diffusion coefficient, all in LJ units. `virials` has shape (4, 2).
    """

    virials: np.ndarray
    diffusion: float

    @classmethod
    def guess(cls):
        """What is known before the first simulation."""
        return cls(np.column_stack((GUESSED_VIRIALS, np.zeros(len(POWERS)))), GUESSED_DIFFUSION)

    @classmethod
    def fit(cls, density, temperature, pressure, diffusion):
        """Least squares through simulated points (arrays of shape (n,)), with a guess as prior."""
        guess = cls.guess()
        dense, warm = (a.ravel() for a in np.meshgrid(GUESSED_DENSITIES, GUESSED_TEMPERATURES))
        rows = np.concatenate((_terms(density, temperature), GUESS_WEIGHT * _terms(dense, warm)))
        excess = guess.pressure(dense, warm) - dense * warm
        goal = np.concatenate((pressure - density * temperature, GUESS_WEIGHT * excess))
        virials = np.linalg.lstsq(rows, goal, rcond=None)[0]
        return cls(virials.reshape(len(POWERS), 2), float(np.mean(diffusion)))

    def pressure(self, density, temperature):
        """The pressure at densities and temperatures (arrays of one shape)."""
        total = density * temperature
        for power, (constant, slope) in zip(POWERS, self.virials, strict=True):
            total = total + (constant + slope * temperature) * density**power
        return total

    def potential(self, density, temperature):
        """The chemical potential up to a function of the temperature: the integral of d(pressure) / density."""
        kept = np.maximum(density, THIN)
        total = temperature * (np.log(kept) + np.minimum(density - THIN, 0) / THIN)
        for power, (constant, slope) in zip(POWERS, self.virials, strict=True):
            total = total + power / (power - 1) * (constant + slope * temperature) * density ** (power - 1)
        return total

    @classmethod
    def read(cls, path):
        found = json.loads(path.read_text())
        return cls(np.array(found["virials"]), found["diffusion"])

    def write(self, path):
        """Replace the file atomically, so that no reader gets half of it."""
        scratch = path.with_suffix(".tmp")
        scratch.write_text(json.dumps({"virials": self.virials.tolist(), "diffusion": self.diffusion}, indent=1) + "\n")
        scratch.replace(path)


def _terms(density, temperature):
    """The design matrix, shape (n, 8)."""
    powers = density[:, None] ** POWERS
    return np.stack((powers, powers * temperature[:, None]), axis=2).reshape(len(density), -1)
