// Collective writes and reads of which the ranks come at different times. Each rank measures its own calls, and in them the
// system calls on files: its own functions stand before libc's. Made by mpicc -rdynamic, and run by mpiexec.
//
//   mpi_phases FILE ROUNDS
//
// Prints a line for each collective call: rank, round, name, begin and end (ns since the epoch), ns in system calls.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define NUMBERS (1 << 20)
#define LATE_NS 60000000L

static long now(void) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return t.tv_sec * 1000000000L + t.tv_nsec;
}

static long g_inside, g_calls;

#define TIMED(name, parameters, ...)                                  \
  ssize_t name parameters {                                           \
    static ssize_t(*next) parameters;                                 \
    if (!next) next = (ssize_t(*) parameters)dlsym(RTLD_NEXT, #name); \
    long begin = now();                                               \
    ssize_t done = next(__VA_ARGS__);                                 \
    g_inside += now() - begin;                                        \
    g_calls += 1;                                                     \
    return done;                                                      \
  }
TIMED(pwrite, (int fd, const void *buf, size_t n, off_t at), fd, buf, n, at)
TIMED(pwritev, (int fd, const struct iovec *v, int n, off_t at), fd, v, n, at)
TIMED(pread, (int fd, void *buf, size_t n, off_t at), fd, buf, n, at)
TIMED(preadv, (int fd, const struct iovec *v, int n, off_t at), fd, v, n, at)
TIMED(pwrite64, (int fd, const void *buf, size_t n, off_t at), fd, buf, n, at)
TIMED(pwritev64, (int fd, const struct iovec *v, int n, off_t at), fd, v, n, at)
TIMED(pread64, (int fd, void *buf, size_t n, off_t at), fd, buf, n, at)
TIMED(preadv64, (int fd, const struct iovec *v, int n, off_t at), fd, v, n, at)

int main(int argc, char **argv) {
  int rank, ranks, rounds = atoi(argv[2]);
  MPI_File file;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  int *numbers = calloc(NUMBERS, sizeof(int));
  // Interleaved blocks, so that the library collects them at the aggregators.
  MPI_Datatype blocks;
  MPI_Type_vector(NUMBERS / 1024, 1024, 1024 * ranks, MPI_INT, &blocks);
  MPI_Type_commit(&blocks);
  if (MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file)) return 1;
  MPI_File_set_view(file, (MPI_Offset)rank * 1024 * sizeof(int), MPI_INT, blocks, "native", MPI_INFO_NULL);
  for (int round = 0; round < rounds; ++round) {
    MPI_Barrier(MPI_COMM_WORLD);
    // Not by the clock alone: on a busy machine another rank may be as late. The others say that they are about to call.
    const int late = round % ranks;
    for (int other = 0; rank == late && other < ranks; ++other) {
      if (other != late) MPI_Recv(NULL, 0, MPI_INT, other, round, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    if (rank == late) {
      usleep(LATE_NS / 1000);
    } else {
      MPI_Send(NULL, 0, MPI_INT, late, round, MPI_COMM_WORLD);
    }
    g_inside = g_calls = 0;
    long begin = now();
    const int writes = round % 2 == 0;
    if (writes) {
      MPI_File_write_at_all(file, 0, numbers, NUMBERS, MPI_INT, MPI_STATUS_IGNORE);
    } else {
      MPI_File_read_at_all(file, 0, numbers, NUMBERS, MPI_INT, MPI_STATUS_IGNORE);
    }
    printf("%d %d %s %ld %ld %ld\n", rank, round, writes ? "write" : "read", begin, now(), g_inside);
  }
  // One that no other rank has a part in.
  MPI_File_write_at(file, 0, numbers, 1, MPI_INT, MPI_STATUS_IGNORE);
  MPI_File_close(&file);
  MPI_Finalize();
  return 0;
}
