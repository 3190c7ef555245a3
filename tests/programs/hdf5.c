// Calls of HDF5, and what they should come to: each line "call object bytes" on standard output is an event that is to
// be in the trace. What is wrong on purpose prints HDF5's error stack to standard error, as it does untraced.
#include <hdf5.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROWS 100
#define COLUMNS 10

static double values[ROWS][COLUMNS];

static void tell(const char *call, const char *object, long bytes) { printf("%s %s %ld\n", call, object, bytes); }

static herr_t count_error(unsigned n, const H5E_error2_t *error, void *count) {
  ++*(int *)count;
  return 0;
}

static int errors(void) {
  int count = 0;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, count_error, &count);
  return count;
}

static hid_t make(hid_t parent, const char *name, hid_t type, hid_t space) {
  return H5Dcreate2(parent, name, type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
}

static int write_all(const char *path) {
  hsize_t size[2] = {ROWS, COLUMNS}, start[2] = {3, 2}, part[2] = {5, 4};
  hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  hid_t space = H5Screate_simple(2, size, NULL), group = H5Gcreate2(file, "group", 0, 0, 0);
  hid_t data = make(group, "data", H5T_NATIVE_DOUBLE, space);
  H5Dwrite(data, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values);
  tell("H5Dwrite", "/group/data", sizeof values);

  hid_t block = H5Screate_simple(2, part, NULL);
  H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, part, NULL);
  float few[20];
  H5Dread(data, H5T_NATIVE_FLOAT, block, space, H5P_DEFAULT, few);
  tell("H5Dread", "/group/data", sizeof few);
  double *sparse = malloc(sizeof values);
  H5Dread(data, H5T_NATIVE_DOUBLE, H5S_ALL, space, H5P_DEFAULT, sparse);
  tell("H5Dread", "/group/data", 20 * sizeof(double));

  int numbers[20] = {0};
  hid_t odd = make(file, "odd \"name\"\n", H5T_NATIVE_INT, block);
  H5Dwrite(odd, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, numbers);
  tell("H5Dwrite", "/odd \"name\"|", sizeof numbers);
  hid_t bytes = make(file, "\xff\xfe", H5T_NATIVE_INT, block);
  H5Dwrite(bytes, H5T_NATIVE_INT, block, H5S_ALL, H5P_DEFAULT, numbers);
  tell("H5Dwrite", "/\\xff\\xfe", sizeof numbers);

  // Strings of any length are pointers in memory; so is a record that holds one.
  hid_t text = H5Tcopy(H5T_C_S1), record = H5Tcreate(H5T_COMPOUND, 16), one = H5Screate(H5S_SCALAR);
  H5Tset_size(text, H5T_VARIABLE);
  H5Tinsert(record, "number", 0, H5T_NATIVE_INT);
  H5Tinsert(record, "text", 8, text);
  struct {
    int number;
    const char *text;
  } row = {1, "abc"};
  const char *words = "words";
  hid_t strings = make(file, "strings", text, one), rows = make(file, "rows", record, one);
  H5Dwrite(strings, text, H5S_ALL, H5S_ALL, H5P_DEFAULT, &words);
  tell("H5Dwrite", "/strings", -1);
  H5Dwrite(rows, record, H5S_ALL, H5S_ALL, H5P_DEFAULT, &row);
  tell("H5Dwrite", "/rows", -1);

  hid_t note = H5Acreate2(data, "note", H5T_NATIVE_INT, block, 0, 0);
  H5Awrite(note, H5T_NATIVE_INT, numbers);
  tell("H5Awrite", "/group/data@note", sizeof numbers);

  // Written first, named later.
  hid_t late = H5Dcreate_anon(file, H5T_NATIVE_INT, block, 0, 0);
  H5Dwrite(late, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, numbers);
  tell("H5Dwrite", "-", sizeof numbers);
  H5Olink(late, group, "late", 0, 0);
  tell("H5Olink", "/group/late", sizeof numbers);
  H5Dread(late, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, numbers);
  tell("H5Dread", "/group/late", sizeof numbers);

  // Opened by a reference: to look its name up would be to search the file.
  hobj_ref_t reference;
  H5Rcreate(&reference, file, "/group/data", H5R_OBJECT, -1);
  hid_t again = H5Rdereference2(file, 0, H5R_OBJECT, &reference);
  H5Dread(again, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values);
  tell("H5Dread", "-", sizeof values);

  // Called otherwise since.
  H5Lmove(file, "/group/data", file, "/moved", 0, 0);
  H5Dread(data, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values);
  tell("H5Dread", "/moved", sizeof values);

  hid_t first = data;
  H5Dclose(odd);
  // Closes everything, and counts its ids from the beginning again.
  H5close();
  file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
  hid_t other = H5Oopen(file, "odd \"name\"\n", H5P_DEFAULT);
  fprintf(stderr, "the same id again: %d\n", other == first);
  H5Dread(other, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, numbers);
  tell("H5Dread", "/odd \"name\"|", sizeof numbers);
  return 0;  // and the library is left to close all at exit
}

static int fail(const char *path) {
  hsize_t size[1] = {4};
  int numbers[4];
  hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), space = H5Screate_simple(1, size, NULL);
  hid_t data = make(file, "data", H5T_NATIVE_INT, space);
  long results[] = {
      H5Dopen2(file, "nowhere", H5P_DEFAULT),
      errors(),
      H5Dread(12345, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, numbers),
      errors(),
      H5Dwrite(data, 77, H5S_ALL, H5S_ALL, H5P_DEFAULT, numbers),
      errors(),
      H5Dread(data, H5T_NATIVE_INT, 99, H5S_ALL, H5P_DEFAULT, numbers),
      errors(),
      H5Dclose(999),
      errors(),
      H5Fclose(data),
      errors(),
      H5Fopen("/no/such/file.h5", H5F_ACC_RDONLY, H5P_DEFAULT),
      errors(),
      H5Fopen(NULL, H5F_ACC_RDONLY, H5P_DEFAULT),
      errors(),
      H5Aread(data, H5T_NATIVE_INT, numbers),
      errors(),
      H5Oopen(file, "nowhere", H5P_DEFAULT),
      errors(),
  };
  for (size_t i = 0; i < sizeof results / sizeof *results; ++i) printf("%ld\n", results[i]);
  return 0;
}

// The library is not safe for threads unless it was built so; programs lock.
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static hid_t shared_file;

static void *in_thread(void *number) {
  char name[32];
  snprintf(name, sizeof name, "thread%ld", (long)number);
  hsize_t size[1] = {1000};
  int *numbers = calloc(1000, sizeof *numbers);
  for (int i = 0; i < 50; ++i) {
    pthread_mutex_lock(&lock);
    hid_t space = H5Screate_simple(1, size, NULL);
    hid_t data = i ? H5Dopen2(shared_file, name, 0) : make(shared_file, name, H5T_NATIVE_INT, space);
    H5Dwrite(data, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, numbers);
    H5Dclose(data);
    H5Sclose(space);
    pthread_mutex_unlock(&lock);
  }
  return NULL;
}

static int threads(const char *path) {
  pthread_t all[4];
  shared_file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  for (long i = 0; i < 4; ++i) pthread_create(&all[i], NULL, in_thread, (void *)i);
  for (long i = 0; i < 4; ++i) pthread_join(all[i], NULL);
  return H5Fclose(shared_file);
}

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  if (strcmp(argv[1], "write") == 0) return write_all(argv[2]);
  if (strcmp(argv[1], "fail") == 0) return fail(argv[2]);
  return threads(argv[2]);
}
