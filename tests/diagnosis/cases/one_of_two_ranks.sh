# shellcheck shell=bash source=tests/diagnosis/common.sh
# Two ranks of MPI compute alike; rank 0 gathers the fields of both and writes them.
. "$(dirname "$0")/../common.sh"
cat > ranks.c << 'C'
#include <fcntl.h>
#include <mpi.h>
#include <stdlib.h>
#include <unistd.h>
enum { COUNT = 4 << 20 };
int main(int argc, char **argv) {
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  double *field = malloc(COUNT * sizeof *field), *all = malloc(2 * COUNT * sizeof *all);
  int file = rank ? -1 : open("fields", O_WRONLY | O_CREAT | O_TRUNC, 0644);
  for (int step = 0; step < 4; ++step) {
    for (int i = 0; i < COUNT; ++i) field[i] = rank + step + 0.5 * i;
    MPI_Gather(field, COUNT, MPI_DOUBLE, all, COUNT, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    for (int i = 0; rank == 0 && i < 2 * COUNT; i += 1 << 17) {
      if (write(file, all + i, sizeof *all << 17) < 0) return 1;
    }
    if (rank == 0) fsync(file);
  }
  return MPI_Finalize();
}
C
mpicc -O1 -o ranks ranks.c
traced mpirun --allow-run-as-root --oversubscribe -n 2 ./ranks
