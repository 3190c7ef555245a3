/* Writes to `out`, and dies in many ways: deaths HOW. What was written before is to be in the trace. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int g_out;
static sem_t g_wrote;
static volatile int g_writes;

/* However busy the machine is, there is something to lose by then. */
static void *killer(void *unused) {
  while (g_writes < 2000) usleep(1000);
  kill(getpid(), SIGKILL);
  return unused;
}

static void *writer(void *name) {
  int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  for (int i = 0; i < 5000; ++i) {
    write(fd, "0123456789", 10);
    if (i == 0) sem_post(&g_wrote);
  }
  return name;
}

static void *exiting(void *unused) {
  exit(7);
  return unused;
}

static void *leaving(void *unused) { pthread_exit(unused); }

static void at_quick_exit_writes(void) { write(g_out, "handler\n", 8); }

int main(int argc, char **argv) {
  const char *how = argv[argc - 1];
  pthread_t threads[4];
  g_out = open("out", O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (!strcmp(how, "kill")) pthread_create(threads, NULL, killer, NULL);
  for (int i = 0; i < (strcmp(how, "kill") ? 1000 : 100000000); ++i) {
    write(g_out, "0123456789", 10);
    g_writes = i + 1;
  }
  if (!strcmp(how, "term")) raise(SIGTERM);
  if (!strcmp(how, "segv")) *(volatile int *)8 = 1;
  if (!strcmp(how, "abort")) abort();
  if (!strcmp(how, "_exit")) _exit(3);
  if (!strcmp(how, "_Exit")) _Exit(4);
  if (!strcmp(how, "quick_exit")) at_quick_exit(at_quick_exit_writes), quick_exit(5);
  if (!strcmp(how, "exit_group")) syscall(SYS_exit_group, 6);
  if (!strcmp(how, "thread_exits")) pthread_create(threads, NULL, exiting, NULL), pause();
  if (!strcmp(how, "main_leaves")) pthread_create(threads, NULL, leaving, NULL), pthread_exit(NULL);
  if (!strcmp(how, "threads_write")) {
    static char names[4][16];
    sem_init(&g_wrote, 0, 0);
    for (int i = 0; i < 4; ++i) {
      sprintf(names[i], "thread%d", i);
      pthread_create(threads + i, NULL, writer, names[i]);
    }
    for (int i = 0; i < 3; ++i) pthread_join(threads[i], NULL);
    /* The fourth has written, and may still do so. */
    for (int i = 0; i < 4; ++i) sem_wait(&g_wrote);
  }
  if (!strcmp(how, "buffered")) fputs("left to libc\n", fopen("buffered", "w"));
  return 0;
}
