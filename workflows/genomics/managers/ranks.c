/* ranks STEP.SH NAME SAMPLE...: an MPI program that runs a step of the computation for several samples at once, each
 * sample on one rank: the first on rank 0, the next on rank 1, and again from rank 0. All ranks end with the same
 * status: that of the worst sample. */
#include <mpi.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>

extern char **environ;

static int run_step(char *script, char *step, char *sample) {
  char *words[] = {"sh", script, step, sample, NULL};
  pid_t child;
  int status;
  if (posix_spawnp(&child, "sh", NULL, NULL, words, environ) || waitpid(child, &status, 0) != child) return 127;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int main(int argc, char **argv) {
  int rank, size, worst = 0, all;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  for (int i = 3 + rank; i < argc; i += size) {
    int status = run_step(argv[1], argv[2], argv[i]);
    if (status) fprintf(stderr, "ranks: %s of %s ended with %d\n", argv[2], argv[i], status);
    if (status > worst) worst = status;
  }
  MPI_Allreduce(&worst, &all, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  MPI_Finalize();
  return all;
}
