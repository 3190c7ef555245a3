/* Uses a processor in threads or children, and says what the kernel counts of each: processor_time HOW [N].
 * A line each on standard output: what it is, its number, ns on a processor, ns ready (-1: it did not look). */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

#define BURNED_NS 20000000L
#define MOST 64

struct account {
  int id, silent, stays;
  long run, ready;
};
static struct account g_accounts[MOST];
static int g_done;

static long processor_ns(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return t.tv_sec * 1000000000L + t.tv_nsec;
}

static void burn(void) {
  const long until = processor_ns(CLOCK_THREAD_CPUTIME_ID) + BURNED_NS;
  while (processor_ns(CLOCK_THREAD_CPUTIME_ID) < until) continue;
}

static void read_schedstat(const char *path, struct account *a) {
  char text[100] = "";
  const int fd = open(path, O_RDONLY);
  if (fd < 0) return;
  CHECK(read(fd, text, sizeof text - 1) > 0 && close(fd) == 0);
  CHECK(sscanf(text, "%ld %ld", &a->run, &a->ready) == 2);
}

static void *compute(void *account) {
  struct account *a = account;
  a->id = gettid();
  a->ready = -1;
  burn();
  if (!a->silent) read_schedstat("/proc/thread-self/schedstat", a);
  a->run = processor_ns(CLOCK_THREAD_CPUTIME_ID);
  __atomic_fetch_add(&g_done, 1, __ATOMIC_SEQ_CST);
  if (a->stays) pause();
  return NULL;
}

/* N threads, every second of which records nothing; the last ones live until the process ends. */
static void threads(int n) {
  pthread_t made[MOST];
  for (int i = 0; i < n; ++i) {
    g_accounts[i].silent = i % 2;
    g_accounts[i].stays = i >= n - 3;
    CHECK(pthread_create(&made[i], NULL, compute, &g_accounts[i]) == 0);
  }
  while (__atomic_load_n(&g_done, __ATOMIC_SEQ_CST) < n) sched_yield();
  for (int i = 0; i < n; ++i) {
    struct account *a = &g_accounts[i];
    if (!a->stays) CHECK(pthread_join(made[i], NULL) == 0);
    printf("%s %d %ld %ld\n", a->silent ? "silent" : "thread", a->id, a->run, a->ready);
  }
}

/* A child that burns and ends by itself, or is killed. */
static void child(int kills) {
  struct account a = {.ready = -1};
  char path[64];
  siginfo_t info;
  const int pid = fork();
  if (pid == 0) {
    burn();
    if (kills) raise(SIGKILL);
    _exit(3);
  }
  CHECK(pid > 0 && waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT) == 0);
  snprintf(path, sizeof path, "/proc/%d/schedstat", pid);
  read_schedstat(path, &a);
  CHECK(waitpid(pid, NULL, 0) == pid);
  printf("child %d %ld %ld\n", pid, a.run, a.ready);
}

int main(int argc, char **argv) {
  const char *how = argc > 1 ? argv[1] : "";
  if (!strcmp(how, "threads")) threads(argc > 2 ? atoi(argv[2]) : 6);
  if (!strcmp(how, "child")) child(0);
  if (!strcmp(how, "killed_child")) child(1);
  burn();
  printf("process %d %ld -1\n", getpid(), processor_ns(CLOCK_PROCESS_CPUTIME_ID));
  fflush(stdout);
  if (!strcmp(how, "killed")) raise(SIGKILL);
  return 0;
}
