// Ranks that write one dataset together and read each other's part. Made by mpicc, and run by mpiexec.
#include <hdf5.h>
#include <mpi.h>

#define NUMBERS 1000

int main(int argc, char **argv) {
  int rank, ranks, numbers[NUMBERS], bad = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  hid_t access = H5Pcreate(H5P_FILE_ACCESS), together = H5Pcreate(H5P_DATASET_XFER);
  H5Pset_fapl_mpio(access, MPI_COMM_WORLD, MPI_INFO_NULL);
  H5Pset_dxpl_mpio(together, H5FD_MPIO_COLLECTIVE);
  hid_t file = H5Fcreate(argv[1], H5F_ACC_TRUNC, H5P_DEFAULT, access);
  hsize_t size = NUMBERS * ranks, start = NUMBERS * rank, count = NUMBERS;
  hid_t space = H5Screate_simple(1, &size, NULL), memory = H5Screate_simple(1, &count, NULL);
  hid_t data = H5Dcreate2(file, "shared", H5T_NATIVE_INT, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  for (int i = 0; i < NUMBERS; ++i) numbers[i] = rank;
  H5Sselect_hyperslab(space, H5S_SELECT_SET, &start, NULL, &count, NULL);
  bad += H5Dwrite(data, H5T_NATIVE_INT, memory, space, together, numbers) < 0;
  start = NUMBERS * ((rank + 1) % ranks);
  H5Sselect_hyperslab(space, H5S_SELECT_SET, &start, NULL, &count, NULL);
  MPI_Barrier(MPI_COMM_WORLD);
  bad += H5Dread(data, H5T_NATIVE_INT, memory, space, together, numbers) < 0;
  bad += numbers[0] != (rank + 1) % ranks;
  H5Dclose(data);
  H5Fclose(file);
  MPI_Finalize();
  return bad;
}
