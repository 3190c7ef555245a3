// Calls of MPI-IO: a line "rank call offset asked got" on standard output for each that is to be in the trace, -1 for
// what the call doesn't tell. Made by mpicc, and run by mpiexec.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NUMBERS 1000

static int rank;

static void tell(const char *call, long offset, long asked, long got) {
  printf("%d MPI_File_%s %ld %ld %ld\n", rank, call, offset, asked, got);
}

int main(int argc, char **argv) {
  const int block = NUMBERS * sizeof(int), header = 100;
  int numbers[NUMBERS], bad = 0;
  MPI_File file;
  MPI_Status status;
  MPI_Request request;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  int ranks;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  for (int i = 0; i < NUMBERS; ++i) numbers[i] = rank;
  if (MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file)) return 1;
  MPI_File_set_size(file, 0);
  MPI_File_set_view(file, header, MPI_INT, MPI_INT, "native", MPI_INFO_NULL);

  MPI_File_write_at_all(file, rank * NUMBERS, numbers, NUMBERS, MPI_INT, MPI_STATUS_IGNORE);
  tell("write_at_all", header + rank * block, block, block);
  MPI_File_sync(file);
  MPI_Barrier(MPI_COMM_WORLD);

  // The last rank reads beyond the end, with a status and without.
  int left = rank == ranks - 1 ? 100 * (int)sizeof(int) : block;
  MPI_File_read_at(file, rank * NUMBERS + 900, numbers, NUMBERS, MPI_INT, &status);
  tell("read_at", header + rank * block + 900 * (int)sizeof(int), block, left);
  MPI_File_read_at(file, rank * NUMBERS + 900, numbers, NUMBERS, MPI_INT, MPI_STATUS_IGNORE);
  tell("read_at", header + rank * block + 900 * (int)sizeof(int), block, left);
  int got;
  MPI_Get_count(&status, MPI_INT, &got);
  bad += got != left / (int)sizeof(int);
  MPI_Barrier(MPI_COMM_WORLD);  // what follows makes the file longer

  MPI_File_iread_at(file, 0, numbers, 10, MPI_INT, &request);
  tell("iread_at", header, 40, -1);
  MPI_Wait(&request, &status);
  MPI_File_seek(file, 0, MPI_SEEK_SET);
  MPI_File_read(file, numbers, 5, MPI_INT, &status);
  tell("read", -1, 20, 20);
  MPI_File_read_all_begin(file, numbers, 5, MPI_INT);
  tell("read_all_begin", -1, 20, -1);
  MPI_File_read_all_end(file, numbers, &status);

  // Two doubles with a gap, as one element.
  MPI_Datatype pair;
  MPI_Type_vector(2, 1, 2, MPI_DOUBLE, &pair);
  MPI_Type_commit(&pair);
  double values[8] = {0};
  MPI_File_write_at(file, (ranks + rank) * NUMBERS, values, 2, pair, &status);
  tell("write_at", header + (ranks + rank) * block, 32, 32);
  MPI_Type_free(&pair);
  MPI_File_write_ordered(file, numbers, 3, MPI_INT, &status);
  tell("write_ordered", -1, 12, 12);

  MPI_File_close(&file);
  bad += MPI_File_open(MPI_COMM_SELF, "/no/such/file", MPI_MODE_RDONLY, MPI_INFO_NULL, &file) == MPI_SUCCESS;
  MPI_Finalize();
  return bad;
}
