/* Two threads that call what planted.cc hooks, each on a file of its own; not built with a sanitizer. */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static void *works(void *name) {
  int fd = open(name, O_WRONLY | O_CREAT, 0600);
  for (int i = 0; i < 1000; ++i) {
    if (write(fd, "x", 1) != 1 || ftruncate(fd, 1)) return name;
  }
  close(fd);
  return NULL;
}

int main(void) {
  pthread_t threads[2];
  void *failed[2];
  pthread_create(threads, NULL, works, "one");
  pthread_create(threads + 1, NULL, works, "two");
  pthread_join(threads[0], failed);
  pthread_join(threads[1], failed + 1);
  return failed[0] || failed[1];
}
