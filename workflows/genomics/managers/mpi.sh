#!/bin/sh
# sh mpi.sh RUN, in a folder with genome.fa.gz and `ranks` (mpicc -o ranks ranks.c), on a cluster as for slurm.sh: one job, in
# which each step of the computation is a step of Slurm; where there is work for each sample, one of four ranks. RUN is the
# run directory.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
sbatch --ntasks=4 --output=slurm.out --job-name=genomics --trace --trace-run="$1" --trace-tag=workflow=genomics \
  "$here/mpi_steps.sh" "$here/step.sh"
