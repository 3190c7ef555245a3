// What a call of a layer costs: prints ns of a call, the median of bursts. Made by mpicc with parallel HDF5.
//
//   layers FILE BURSTS
//
// Calls, each of one element: H5Dwrite of all of a dataset, of a hyperslab; MPI_File_write_at, MPI_File_write_at_all of one
// rank. HDF5 keeps the chunk in its cache, so the first two make no system call.
#include <hdf5.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define EACH 400
#define KINDS 4

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1e9 + t.tv_nsec;
}

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static hid_t dataset_of(hid_t file, const char *name, hid_t space) {
  hsize_t chunk[2] = {16, 16};
  hid_t made = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_chunk(made, 2, chunk);
  return H5Dcreate2(file, name, H5T_NATIVE_INT, space, H5P_DEFAULT, made, H5P_DEFAULT);
}

int main(int argc, char **argv) {
  int bursts = atoi(argv[2]), number = 1;
  char other[4096];
  snprintf(other, sizeof other, "%s.bin", argv[1]);
  MPI_Init(&argc, &argv);
  hsize_t one[2] = {1, 1}, size[2] = {16, 16}, start[2] = {3, 4};
  hid_t file = H5Fcreate(argv[1], H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  hid_t single = H5Screate_simple(2, one, NULL), space = H5Screate_simple(2, size, NULL);
  hid_t small = H5Dcreate2(file, "small", H5T_NATIVE_INT, single, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  hid_t grid = dataset_of(file, "grid", space);
  H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, one, NULL);
  MPI_File shared;
  MPI_File_open(MPI_COMM_SELF, other, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &shared);
  double *times[KINDS];
  for (int kind = 0; kind < KINDS; ++kind) times[kind] = malloc(bursts * sizeof(double));
  for (int burst = 0; burst < bursts; ++burst) {
    for (int kind = 0; kind < KINDS; ++kind) {
      double begin = now();
      for (int i = 0; i < EACH; ++i) {
        if (kind == 0) H5Dwrite(small, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, &number);
        if (kind == 1) H5Dwrite(grid, H5T_NATIVE_INT, single, space, H5P_DEFAULT, &number);
        if (kind == 2) MPI_File_write_at(shared, 0, &number, 1, MPI_INT, MPI_STATUS_IGNORE);
        if (kind == 3) MPI_File_write_at_all(shared, 0, &number, 1, MPI_INT, MPI_STATUS_IGNORE);
      }
      times[kind][burst] = (now() - begin) / EACH;
      usleep(20000);
    }
  }
  for (int kind = 0; kind < KINDS; ++kind) {
    qsort(times[kind], bursts, sizeof(double), by_size);
    printf("%f ", times[kind][bursts / 2]);
  }
  MPI_File_close(&shared);
  H5Dclose(grid);
  H5Dclose(small);
  H5Fclose(file);
  MPI_Finalize();
  return 0;
}
