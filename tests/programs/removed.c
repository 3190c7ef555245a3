// removed HOW COUNT AT CHANGE: COUNT writes to the file `data`, each from a thread if HOW is "thread"; before write AT the
// shell command CHANGE, which does something to the journals. Then it ends: exit, _exit, kill, or "exec": as itself, which
// writes COUNT more and exits. In "thread" another thread writes COUNT of its own, and waits when the process ends.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"

static int g_file;

static void write_many(long count, long at, const char *change) {
  for (long i = 0; i < count; ++i) {
    if (i == at) CHECK(system(change) == 0);
    CHECK(pwrite(g_file, "x", 1, i) == 1);
  }
}

static void *write_beside(void *count) {
  write_many((long)count, -1, "");
  return NULL;
}

static void *wait_for_ever(void *count) {
  write_beside(count);
  for (;;) pause();
}

int main(int argc, char **argv) {
  CHECK(argc == 5);
  const char *how = argv[1], *change = argv[4];
  long count = atol(argv[2]), at = atol(argv[3]);
  g_file = open("data", O_CREAT | O_WRONLY, 0600);
  CHECK(g_file >= 0);
  if (strcmp(how, "thread") == 0) {
    pthread_t waiting, ended;
    CHECK(pthread_create(&waiting, NULL, wait_for_ever, (void *)count) == 0);
    CHECK(pthread_create(&ended, NULL, write_beside, (void *)count) == 0);
    CHECK(pthread_join(ended, NULL) == 0);
    usleep(300000);
  }
  write_many(count, at, change);
  if (strcmp(how, "_exit") == 0) _exit(0);
  if (strcmp(how, "kill") == 0) raise(SIGKILL);
  if (strcmp(how, "exec") == 0) execl(argv[0], argv[0], "exit", argv[2], "-1", "", NULL);
  return 0;
}
