# shellcheck shell=bash source=tests/diagnosis/common.sh
# Six ranks of MPI; rank 0 writes what all have, in small pieces.
. "$(dirname "$0")/../common.sh"
cat > ranks.c << 'C'
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>
int main(int argc, char **argv) {
  int rank;
  static char piece[4096];
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  char name[32];
  snprintf(name, sizeof name, "part.%d", rank);
  int file = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0644);
  for (int i = 0; i < (rank == 0 ? 40000 : 100); ++i) {
    if (write(file, piece, sizeof piece) != sizeof piece) return 1;
  }
  close(file);
  MPI_Barrier(MPI_COMM_WORLD);
  return MPI_Finalize();
}
C
mpicc -O1 -o ranks ranks.c
traced mpirun --allow-run-as-root --oversubscribe -n 6 ./ranks
