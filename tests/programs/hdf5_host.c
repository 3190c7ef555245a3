// Loads a library that uses HDF5, or HDF5 itself, and lets it go: hdf5_host (plugin|handle|none) LIBRARY FILE ROUNDS.
// It says first which functions of HDF5 and MPI are in everybody's sight.
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern int H5Dread(void) __attribute__((weak));
extern int MPI_Init(void) __attribute__((weak));
extern int MPI_File_open(void) __attribute__((weak));

static void look(void) {
  printf("linked %d %d %d, found %d %d %d\n", H5Dread != NULL, MPI_Init != NULL, MPI_File_open != NULL,
         dlsym(RTLD_DEFAULT, "H5Dread") != NULL, dlsym(RTLD_DEFAULT, "MPI_Init") != NULL,
         dlsym(RTLD_DEFAULT, "PMPI_File_open") != NULL);
}

static int by_handle(void *library, const char *path) {
  int64_t (*create)(const char *, unsigned, int64_t, int64_t) = dlsym(library, "H5Fcreate");
  int (*close)(int64_t) = dlsym(library, "H5Fclose");
  int64_t file = create(path, 2, 0, 0);
  return file < 0 || close(file) < 0;
}

int main(int argc, char **argv) {
  look();
  if (argc != 5) return argc != 1;
  for (int i = 0; i < atoi(argv[4]); ++i) {
    void *library = dlopen(argv[2], RTLD_LAZY | RTLD_LOCAL);
    if (!library) return fprintf(stderr, "%s\n", dlerror()), 3;
    int status;
    if (strcmp(argv[1], "plugin") == 0) {
      int (*write)(const char *) = dlsym(library, "write_numbers");
      status = write(argv[3]);
    } else {
      status = by_handle(library, argv[3]);
    }
    if (status) return 4;
    if (dlerror()) return 5;
    dlclose(library);
  }
  look();
  return 0;
}
