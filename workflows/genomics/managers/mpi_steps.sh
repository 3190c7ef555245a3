#!/bin/sh
# The batch script of mpi.sh. MPI_TYPE is srun's: how it starts ranks of the MPI that mpicc is of (`srun --mpi=list`).
set -eu
step=$1

one() { srun --ntasks=1 --job-name="$1" sh "$step" "$1"; }
each() { srun --ntasks=4 --mpi="${MPI_TYPE:-pmix}" --job-name="$1" ./ranks "$step" "$1" ada bo cy dee; }

one unpack
one index
for name in simulate align sort count pile call; do
  each "$name"
done
one merge
one summarize
