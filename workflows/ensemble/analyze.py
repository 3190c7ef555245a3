"""The analysis of one micro simulation: its structure, its diffusion, its energy and pressure.

    python analyze.py DIR

reads frames.lammpstrj, log.lammps and patch.in of the folder DIR; writes result.json and rdf.csv there
"""

import json
import sys
from pathlib import Path

import numpy as np

TIMESTEP = 0.005
"""LAMMPS' default in LJ units."""
BINS, SHELL = 100, 2.5


def read_frames(path):
    """Of a dump: steps, shape (frames,); sides of the box, (3,); unwrapped positions, (frames, atoms, 3)."""
    lines = path.read_text().splitlines()
    atoms = int(lines[3])
    size = atoms + 9
    steps = np.array([int(line) for line in lines[1::size]])
    low, high = np.array([line.split() for line in lines[5:8]], dtype=float).T
    rows = [line.split()[1:] for start in range(0, len(lines), size) for line in lines[start + 9 : start + size]]
    return steps, high - low, np.array(rows, dtype=float).reshape(len(steps), atoms, 3)


def radial_distribution(positions, box):
    """Radii and g(r) up to SHELL, over all frames; minimum image convention."""
    frames, atoms = positions.shape[:2]
    edges = np.linspace(0, SHELL, BINS + 1)
    pairs = np.triu_indices(atoms, 1)
    counts = np.zeros(BINS)
    for frame in positions:
        apart = frame[pairs[0]] - frame[pairs[1]]
        apart -= box * np.round(apart / box)
        counts += np.histogram(np.linalg.norm(apart, axis=1), edges)[0]
    shells = 4 / 3 * np.pi * np.diff(edges**3)
    ideal = frames * len(pairs[0]) * shells / box.prod()
    return (edges[1:] + edges[:-1]) / 2, counts / ideal


def diffusion(steps, positions):
    """The slope of the mean square displacement over its second half, by Einstein's relation."""
    moved = ((positions - positions[0]) ** 2).sum(axis=2).mean(axis=1)
    late = slice(len(steps) // 2, None)
    return float(np.polyfit(steps[late] * TIMESTEP, moved[late], 1)[0] / 6)


def read_thermo(path):
    """Means of the last table of a LAMMPS log, by column."""
    lines = path.read_text().splitlines()
    start = max(i for i, line in enumerate(lines) if line.split()[:1] == ["Step"])
    end = next(i for i in range(start, len(lines)) if lines[i].startswith("Loop time"))
    rows = np.array([line.split() for line in lines[start + 1 : end]], dtype=float)
    return dict(zip(lines[start].split(), rows.mean(axis=0).tolist(), strict=True))


def main():
    folder = Path(sys.argv[1])
    steps, box, positions = read_frames(folder / "frames.lammpstrj")
    thermo = read_thermo(folder / "log.lammps")
    radii, structure = radial_distribution(positions, box)
    asked = dict(line.split()[1::2] for line in (folder / "patch.in").read_text().splitlines())
    result = {
        "density": positions.shape[1] / box.prod(),
        "asked_density": float(asked["density"]),
        "temperature": thermo["Temp"],
        "pressure": thermo["Press"],
        "energy": thermo["PotEng"],
        "diffusion": diffusion(steps, positions),
        "first_shell": float(radii[np.argmax(structure)]),
    }
    (folder / "result.json").write_text(json.dumps(result, indent=1) + "\n")
    np.savetxt(folder / "rdf.csv", np.column_stack((radii, structure)), fmt="%.6f", delimiter=",", header="r,g")


if __name__ == "__main__":
    main()
