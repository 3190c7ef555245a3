// A library that uses HDF5, for hdf5_host.c.
#include <hdf5.h>

int write_numbers(const char *path) {
  hsize_t size[1] = {100};
  int numbers[100] = {0};
  hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), space = H5Screate_simple(1, size, NULL);
  hid_t data = H5Dcreate2(file, "numbers", H5T_NATIVE_INT, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  int status = H5Dwrite(data, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, numbers);
  return status < 0 || H5Dclose(data) < 0 || H5Sclose(space) < 0 || H5Fclose(file) < 0;
}
