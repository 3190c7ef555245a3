# shellcheck shell=bash source=tests/diagnosis/common.sh
# Two ranks of MPI compute, meet, and write a file each.
. "$(dirname "$0")/../common.sh"
cat > ranks.c << 'C'
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv) {
  int rank;
  volatile double sum = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (long i = 1; i < 300000000; ++i) sum += 1.0 / i;
  MPI_Barrier(MPI_COMM_WORLD);
  char name[32];
  snprintf(name, sizeof name, "sum.%d", rank);
  FILE *out = fopen(name, "w");
  fprintf(out, "%f\n", sum);
  fclose(out);
  return MPI_Finalize();
}
C
mpicc -O1 -o ranks ranks.c
traced mpirun --allow-run-as-root --oversubscribe -n 2 ./ranks
