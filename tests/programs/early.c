// Its library does I/O first (early_library.c); then a thread goes its own way to a working directory of its own.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

int early_answer(void);

static void write_file(const char *text, size_t n) {
  int fd = open("file", O_CREAT | O_WRONLY | O_APPEND, 0600);
  if (fd < 0 || write(fd, text, n) != (ssize_t)n || close(fd)) abort();
}

static void *own_directory(void *unused) {
  if (unshare(CLONE_FS) || mkdir("sub", 0700) || chdir("sub")) abort();
  write_file("below", 5);
  return unused;
}

int main(void) {
  pthread_t thread;
  write_file("one", 3);
  pthread_create(&thread, NULL, own_directory, NULL);
  pthread_join(thread, NULL);
  write_file("two", 3);
  printf("%d\n", early_answer());
  return 0;
}
