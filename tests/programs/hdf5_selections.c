// Selections of every kind, flushes and a dataset that grows. Prints for each call what a line of the trace must say of it:
//
//   call object dims points selection blocks slab
#include <hdf5.h>
#include <stdio.h>

#define SAY(call, object, dims, points, rest) printf(call " " object " " dims " " points " " rest "\n")

static int numbers[20 * 30];

int main(int argc, char **argv) {
  hsize_t size[2] = {20, 30}, most[2] = {H5S_UNLIMITED, 30}, chunk[2] = {5, 30}, larger[2] = {40, 30};
  hid_t file = H5Fcreate(argv[1], H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  hid_t space = H5Screate_simple(2, size, most), made = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_chunk(made, 2, chunk);
  hid_t data = H5Dcreate2(file, "grid", H5T_NATIVE_INT, space, H5P_DEFAULT, made, H5P_DEFAULT);
  SAY("H5Dcreate", "/grid", "[20,30]", "-", "- - -");

  H5Dwrite(data, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, numbers);
  SAY("H5Dwrite", "/grid", "[20,30]", "600", "all - -");

  hsize_t start[2] = {4, 2}, stride[2] = {5, 1}, count[2] = {3, 1}, block[2] = {2, 8};
  H5Sselect_hyperslab(space, H5S_SELECT_SET, start, stride, count, block);
  hsize_t points = 48;
  hid_t memory = H5Screate_simple(1, &points, NULL);
  H5Dwrite(data, H5T_NATIVE_INT, memory, space, H5P_DEFAULT, numbers);
  SAY("H5Dwrite", "/grid", "[20,30]", "48", "regular 3 [[4,2],[5,1],[3,1],[2,8]]");

  hsize_t corner[2] = {0, 0}, one[2] = {1, 1};
  H5Sselect_hyperslab(space, H5S_SELECT_OR, corner, NULL, one, NULL);
  points = 49;
  H5Sset_extent_simple(memory, 1, &points, NULL);
  H5Dread(data, H5T_NATIVE_INT, memory, space, H5P_DEFAULT, numbers);
  SAY("H5Dread", "/grid", "[20,30]", "49", "irregular 4 -");

  hsize_t at[3][2] = {{0, 0}, {7, 7}, {19, 29}};
  H5Sselect_elements(space, H5S_SELECT_SET, 3, at[0]);
  points = 3;
  H5Sset_extent_simple(memory, 1, &points, NULL);
  H5Dread(data, H5T_NATIVE_INT, memory, space, H5P_DEFAULT, numbers);
  SAY("H5Dread", "/grid", "[20,30]", "3", "points - -");

  H5Sselect_none(space);
  H5Sselect_none(memory);
  H5Dread(data, H5T_NATIVE_INT, memory, space, H5P_DEFAULT, numbers);
  SAY("H5Dread", "/grid", "[20,30]", "0", "none - -");

  H5Dset_extent(data, larger);
  SAY("H5Dset_extent", "/grid", "[40,30]", "-", "- - -");
  H5Dflush(data);
  SAY("H5Dflush", "/grid", "[40,30]", "-", "- - -");
  H5Fflush(data, H5F_SCOPE_LOCAL);
  SAY("H5Fflush", "-", "-", "-", "- - -");
  H5Dclose(data);

  hid_t single = H5Screate(H5S_SCALAR);
  data = H5Dcreate2(file, "single", H5T_NATIVE_INT, single, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  SAY("H5Dcreate", "/single", "[]", "-", "- - -");
  H5Dwrite(data, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, numbers);
  SAY("H5Dwrite", "/single", "[]", "1", "all - -");
  H5Dclose(data);
  return H5Fclose(file) < 0;
}
