/* Another tool in LD_PRELOAD: counts reads, and passes them to the next library. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <unistd.h>

int interposer_count;

ssize_t read(int fd, void *buffer, size_t n) {
  static ssize_t (*next)(int, void *, size_t);
  if (!next) next = (ssize_t(*)(int, void *, size_t))dlsym(RTLD_NEXT, "read");
  ++interposer_count;
  return next(fd, buffer, n);
}
