/* Threads load and unload libraries, look for their functions and make files with one that stays, while others read
 * and write. loads PINNED OTHER...; prints how many files the pinned one made (HDF5) or questions it answered (MPI). */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { kLoaders = 4, kWriters = 2, kRounds = 300 };
static char **others;
static int other_count;
static volatile int over;

static void *load(void *first) {
  static const char *const kNames[] = {"H5Fcreate", "H5Dread", "MPI_Initialized", "MPI_File_open", "read", "nothing"};
  for (long i = 0; i < kRounds; ++i) {
    const char *name = others[((long)first + i) % other_count];
    void *library = dlopen(name, i & 1 ? RTLD_NOW : RTLD_LAZY);
    if (!library) puts(dlerror()), exit(1);
    for (int k = 0; k < 6; ++k) dlsym(library, kNames[k]);
    if (i % 8 == 7) dlsym(RTLD_DEFAULT, "H5Fcreate"), dlopen("./nowhere.so", RTLD_NOW);
    dlclose(library);
  }
  return NULL;
}

static void *use(void *pinned) {
  void *library = dlopen(pinned, RTLD_NOW);
  if (!library) puts(dlerror()), exit(1);
  long (*create)(const char *, unsigned, long, long) = dlsym(library, "H5Fcreate");
  int (*close_file)(long) = dlsym(library, "H5Fclose");
  int (*ask)(int *) = dlsym(library, "MPI_Initialized");
  long n = 0;
  int answer;
  for (; n < 10 || !over; ++n) {
    if (create && close_file(create("pinned.h5", 2 /* H5F_ACC_TRUNC */, 0, 0)) < 0) exit(1);
    if (!create) ask(&answer), usleep(100);
  }
  return (void *)n;
}

static void *write_and_read(void *name) {
  char text[300];
  for (int i = 0; i < 10 || !over; ++i) {
    FILE *out = fopen(name, "w");
    for (int k = 0; k < 100; ++k) fprintf(out, "%d\n", k);
    fclose(out);
    int fd = open(name, O_RDONLY);
    while (read(fd, text, sizeof text) > 0) {
    }
    close(fd);
  }
  return NULL;
}

int main(int argc, char **argv) {
  static char *names[kWriters] = {"one", "two"};
  pthread_t user, loaders[kLoaders], writers[kWriters];
  others = argv + 2, other_count = argc - 2;
  pthread_create(&user, NULL, use, argv[1]);
  for (long i = 0; i < kLoaders; ++i) pthread_create(&loaders[i], NULL, load, (void *)i);
  for (int i = 0; i < kWriters; ++i) pthread_create(&writers[i], NULL, write_and_read, names[i]);
  for (int i = 0; i < kLoaders; ++i) pthread_join(loaders[i], NULL);
  over = 1;
  void *n;
  pthread_join(user, &n);
  for (int i = 0; i < kWriters; ++i) pthread_join(writers[i], NULL);
  printf("%ld\n", (long)n);
  return 0;
}
