/* A slow tier, as a library to preload: read(2) and pread(2) of files below SLOW_DIR take a second for SLOW_RATE bytes.
 *
 *     cc -shared -fPIC -O2 -o slow_reads.so slow_reads.c
 *     SLOW_DIR=/scratch/in/ SLOW_RATE=2000000 LD_PRELOAD=./slow_reads.so tailrace run ...
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void sleep_for(int fd, ssize_t bytes) {
  const char *dir = getenv("SLOW_DIR"), *rate = getenv("SLOW_RATE");
  if (dir == NULL || rate == NULL || bytes <= 0) return;
  char link[64], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, path, sizeof path - 1);
  if (length < 0) return;
  path[length] = 0;
  if (strncmp(path, dir, strlen(dir)) != 0) return;
  double seconds = (double)bytes / atof(rate);
  struct timespec time = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
  nanosleep(&time, NULL);
}

ssize_t read(int fd, void *buffer, size_t count) {
  static ssize_t (*real)(int, void *, size_t);
  if (real == NULL) real = (ssize_t(*)(int, void *, size_t))dlsym(RTLD_NEXT, "read");
  ssize_t got = real(fd, buffer, count);
  sleep_for(fd, got);
  return got;
}

ssize_t pread(int fd, void *buffer, size_t count, off_t offset) {
  static ssize_t (*real)(int, void *, size_t, off_t);
  if (real == NULL) real = (ssize_t(*)(int, void *, size_t, off_t))dlsym(RTLD_NEXT, "pread");
  ssize_t got = real(fd, buffer, count, offset);
  sleep_for(fd, got);
  return got;
}
