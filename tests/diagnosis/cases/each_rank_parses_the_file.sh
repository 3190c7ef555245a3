# shellcheck shell=bash source=tests/diagnosis/common.sh
# Two ranks of MPI read a text line by line, each all of it, and sum half of the rows.
. "$(dirname "$0")/../common.sh"
seq 4000000 | awk '{ print $1 / 7, $1 / 11, $1 / 13 }' > points.txt
cat > ranks.c << 'C'
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char **argv) {
  int rank, ranks;
  double sum = 0, all;
  char line[256];
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  FILE *file = fopen("points.txt", "r");
  for (long row = 0; fgets(line, sizeof line, file); ++row) {
    char *at = line;
    double x = strtod(at, &at), y = strtod(at, &at), z = strtod(at, &at);
    if (row % ranks == rank) sum += x * y - z;
  }
  MPI_Reduce(&sum, &all, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
  return MPI_Finalize();
}
C
mpicc -O1 -o ranks ranks.c
traced mpirun --allow-run-as-root --oversubscribe -n 2 ./ranks
