#!/bin/sh
# Runs the campaign under Flux: run.sh [FOLDER]. Needs Flux, lammps, numpy, scipy, scikit-learn.
set -eu
folder=${1:-ensemble-run}
flux start -s1 "${PYTHON:-python3}" "$(dirname "$0")/campaign.py" "$folder/files"
