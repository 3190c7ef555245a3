"""Prints the folder in which unchanged programs find DFTracer's modules (stand_ins)."""

from pathlib import Path

print(Path(__file__).absolute().parents[1] / "stand_ins")
