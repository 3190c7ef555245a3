/* Appends to a file in every way: streams of all modes and buffers, descriptors, vectors, positioned and asynchronous
 * writes, copies. Every process writes letters of its own, so that the file tells who wrote each byte.
 *
 * appends FILE SEED OPERATIONS [own|shared PROCESSES]: `shared` processes inherit one open file, and one stream over it;
 * `own` ones open the file themselves. FILE must not exist. */
#define _GNU_SOURCE
#include <aio.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef RWF_APPEND
#define RWF_APPEND 0x10
#endif

static unsigned state;
static unsigned below(unsigned n) {
  state = state * 1103515245 + 12345;
  return (state >> 16) % n;
}

static char letters[32 * 1024];
static void fill(int process) { memset(letters, 'a' + process, sizeof letters); }

static void by_stream(FILE *f, size_t n, unsigned way) {
  switch (way) {
    case 0: fwrite(letters, 1, n, f); break;
    case 1: fwrite(letters, n, 1, f); break;
    case 2: fprintf(f, "%.*s", (int)n, letters); break;
    case 3:
      for (size_t i = 0; i < n && i < 200; ++i) putc(letters[0], f);
      break;
    case 4:
      for (size_t i = 0; i < n && i < 200; ++i) putc_unlocked(letters[0], f);
      break;
    case 5: {
      char line[600];
      size_t some = n < sizeof line - 1 ? n : sizeof line - 1;
      memcpy(line, letters, some);
      line[some] = 0;
      fputs(line, f);
      break;
    }
    case 6: fwrite(letters, 1, n, f), fflush(f); break;
    case 7: fwrite(letters, 1, n, f), fflush(NULL); break;
    case 8: putw(0x01010101 * letters[0], f); break;
    /* The buffer is flushed by the seek; what is written then is appended all the same. */
    default: fwrite(letters, 1, n, f), fseek(f, 0, SEEK_SET); break;
  }
}

static void by_descriptor(int fd, size_t n, unsigned way) {
  struct iovec parts[2] = {{letters, n / 2}, {letters, n - n / 2}};
  switch (way) {
    case 0: (void)!write(fd, letters, n); break;
    case 1: (void)!pwrite(fd, letters, n, 0); break;
    case 2: (void)!writev(fd, parts, 2); break;
    case 3: (void)!pwritev(fd, parts, 2, 1); break;
    case 4: (void)!pwritev2(fd, parts, 2, -1, 0); break;
    case 5: dprintf(fd, "%.*s", (int)n, letters); break;
    default: {
      struct aiocb request = {.aio_fildes = fd, .aio_buf = letters, .aio_nbytes = n};
      const struct aiocb *all[1] = {&request};
      if (aio_write(&request)) exit(3);
      while (aio_error(&request) == EINPROGRESS) aio_suspend(all, 1, NULL);
      if (aio_return(&request) != (ssize_t)n) exit(3);
    }
  }
}

/* On a descriptor without O_APPEND. */
static void by_flag(const char *path, size_t n) {
  int fd = open(path, O_RDWR);
  struct iovec part = {letters, n};
  if (below(2)) lseek(fd, 3, SEEK_SET);
  (void)!pwritev2(fd, &part, 1, below(2) ? 0 : -1, RWF_APPEND);
  close(fd);
}

static void by_fcntl(const char *path, size_t n) {
  int fd = open(path, O_RDWR);
  fcntl(fd, F_SETFL, O_APPEND);
  by_descriptor(fd, n, below(6));
  close(fd);
}

static FILE *stream_of(const char *path) {
  FILE *f;
  int fd = open(path, O_RDWR | O_APPEND);
  switch (below(4)) {
    case 0: close(fd), f = fopen(path, "a"); break;
    case 1: close(fd), f = fopen(path, "a+"); break;
    case 2: f = fdopen(fd, "w"); break;
    default: close(fd), f = fdopen(open(path, O_RDWR), "a"); break;
  }
  static char buffer[1000];
  switch (below(5)) {
    case 0: setvbuf(f, NULL, _IONBF, 0); break;
    case 1: setvbuf(f, NULL, _IOLBF, 0); break;
    case 2: setvbuf(f, buffer, _IOFBF, sizeof buffer); break;
    default: break;
  }
  return f;
}

static void work(const char *path, int operations, FILE *inherited) {
  FILE *f = inherited ? inherited : stream_of(path);
  int fd = inherited ? fileno(inherited) : open(path, O_RDWR | O_APPEND);
  for (int i = 0; i < operations; ++i) {
    size_t n = 1 + below(below(4) ? 300 : 9000);
    switch (below(inherited ? 2 : 6)) {
      case 0: by_stream(f, n, below(10)); break;
      case 1: by_descriptor(fd, n, below(inherited ? 6 : 7)); break;
      case 2: by_flag(path, n); break;
      case 3: by_fcntl(path, n); break;
      case 4: fclose(f), f = stream_of(path); break;
      default: by_stream(f, n, below(10)); break;
    }
  }
  if (!inherited && below(2)) fclose(f);
}

int main(int argc, char **argv) {
  if (argc < 4) return 2;
  const char *path = argv[1];
  state = (unsigned)atoi(argv[2]);
  int operations = atoi(argv[3]), processes = argc > 5 ? atoi(argv[5]) : 0;
  int shared = argc > 4 && strcmp(argv[4], "shared") == 0;
  close(open(path, O_CREAT | O_EXCL | O_WRONLY, 0644));
  fill(0);
  if (!processes) {
    work(path, operations, NULL);
    return 0;
  }
  FILE *f = shared ? fopen(path, "a") : NULL;
  for (int i = 1; i <= processes; ++i) {
    if (fork()) continue;
    state += 7919 * (unsigned)i;
    fill(i);
    work(path, operations, f);
    exit(0);
  }
  while (wait(NULL) > 0) {
  }
  return 0;
}
