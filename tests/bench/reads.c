// The program that the benchmarks trace: one kind of I/O call, many times, and the time that the loop of calls took.
//
//   reads read FILE CALLS [NS] read(2) of 4 KiB from a file in the page cache, from the start again at its end; NS: computes
//                              so long before each call
//   reads threads FILE CALLS   the same by two threads, each with half the calls and a descriptor of its own
//   reads write FILE CALLS     write(2) of 128 bytes, appended to an empty file
//   reads open DIR CALLS       open(2) and close(2) of DIR/0, DIR/1, ... DIR/999, over and over; a pair is one call
//   reads stat DIR CALLS       stat(2) of the same files
//
// Prints the loop's time in ns. The calls are as cheap as the kernel makes them, so that no disk hides what
// a tracer adds. The caller makes the files.
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { kBlockBytes = 4096, kWriteBytes = 128, kFiles = 1000, kNameBytes = 4096 };

static char (*g_names)[kNameBytes];

static int64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void require(int good, const char *what) {
  if (good) return;
  fprintf(stderr, "reads: %s: %s\n", what, strerror(errno));
  exit(1);
}

static int open_file(const char *path, int flags) {
  int fd = open(path, flags, 0600);
  require(fd >= 0, path);
  return fd;
}

static void compute(int64_t ns) {
  for (int64_t end = now_ns() + ns; now_ns() < end;) {
  }
}

static void read_blocks(int fd, long calls, int64_t pause_ns) {
  char block[kBlockBytes];
  struct stat info;
  require(fstat(fd, &info) == 0, "fstat");
  long blocks = info.st_size / kBlockBytes;
  require(blocks > 0, "the file is too small");
  // Rewound by count: a read that meets the end would be one more event than calls were asked for.
  for (long left = calls; left > 0; left -= blocks) {
    long now = left < blocks ? left : blocks;
    for (long i = 0; i < now; i++) {
      if (pause_ns) compute(pause_ns);
      require(read(fd, block, sizeof block) == kBlockBytes, "read");
    }
    require(lseek(fd, 0, SEEK_SET) == 0, "lseek");
  }
}

static void write_blocks(int fd, long calls) {
  char block[kWriteBytes];
  memset(block, 'x', sizeof block);
  for (long i = 0; i < calls; i++) require(write(fd, block, sizeof block) == kWriteBytes, "write");
}

static void open_files(long calls) {
  for (long i = 0; i < calls; i++) {
    int fd = open(g_names[i % kFiles], O_RDONLY);
    require(fd >= 0, "open");
    require(close(fd) == 0, "close");
  }
}

static void stat_files(long calls) {
  struct stat info;
  for (long i = 0; i < calls; i++) require(stat(g_names[i % kFiles], &info) == 0, "stat");
}

struct Half {
  const char *path;
  long calls;
};

static void *read_half(void *argument) {
  const struct Half *half = argument;
  int fd = open_file(half->path, O_RDONLY);
  read_blocks(fd, half->calls, 0);
  close(fd);
  return NULL;
}

static void read_by_threads(const char *path, long calls) {
  struct Half half[2] = {{path, calls / 2}, {path, calls - calls / 2}};
  pthread_t threads[2];
  for (int i = 0; i < 2; i++) require(pthread_create(&threads[i], NULL, read_half, &half[i]) == 0, "pthread_create");
  for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
}

static void name_files(const char *directory) {
  g_names = calloc(kFiles, sizeof *g_names);
  require(g_names != NULL, "calloc");
  for (int i = 0; i < kFiles; i++) snprintf(g_names[i], kNameBytes, "%s/%d", directory, i);
}

int main(int argc, char **argv) {
  if (argc != 4 && argc != 5) {
    fprintf(stderr, "usage: reads read|threads|write|open|stat PATH CALLS [NS]\n");
    return 2;
  }
  const char *kind = argv[1], *path = argv[2];
  long calls = atol(argv[3]);
  int64_t pause_ns = argc > 4 ? atol(argv[4]) : 0;
  int reads = strcmp(kind, "read") == 0, writes = strcmp(kind, "write") == 0, threads = strcmp(kind, "threads") == 0;
  int fd = -1;
  if (reads) fd = open_file(path, O_RDONLY);
  if (writes) fd = open_file(path, O_WRONLY | O_CREAT | O_TRUNC);
  if (!reads && !writes && !threads) name_files(path);

  int64_t start = now_ns();
  if (reads) {
    read_blocks(fd, calls, pause_ns);
  } else if (writes) {
    write_blocks(fd, calls);
  } else if (threads) {
    read_by_threads(path, calls);
  } else if (strcmp(kind, "open") == 0) {
    open_files(calls);
  } else {
    stat_files(calls);
  }
  int64_t end = now_ns();
  if (fd >= 0) close(fd);
  printf("%lld\n", (long long)(end - start));
  return 0;
}
