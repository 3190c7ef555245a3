"""Slurm: where the SPANK plugin is installed.

The plugin is C++ (slurm-plugin/spank.cc), as is the process that it starts beside a traced step (step.cc).
"""

from tailrace import installation

PLUGIN = installation.PACKAGE / "slurm/lib/tailrace-spank.so"
