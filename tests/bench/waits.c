/* The loop that tests/bench/waits.py times: waits HOW CALLS.
 * Prints ns a call, by its own clock, of the fastest of some rounds. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 7 };

static double now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

static int g_pipe[2], g_epoll, g_file;
static sem_t g_there, g_back;
static pthread_mutex_t g_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t g_condition = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t g_rwlock = PTHREAD_RWLOCK_INITIALIZER;
static int g_turn;
static long g_calls;

static void *answers_semaphores(void *unused) {
  for (long i = 0; i < g_calls * ROUNDS; ++i) sem_wait(&g_there), sem_post(&g_back);
  return unused;
}

static void take_turn(int mine) {
  pthread_mutex_lock(&g_mutex);
  while (g_turn != mine) pthread_cond_wait(&g_condition, &g_mutex);
  g_turn = !mine;
  pthread_cond_signal(&g_condition);
  pthread_mutex_unlock(&g_mutex);
}

static void *answers_conditions(void *unused) {
  for (long i = 0; i < g_calls * ROUNDS; ++i) take_turn(1);
  return unused;
}

static void call(const char *how) {
  struct pollfd one = {g_pipe[0], POLLOUT, 0}, ready = {g_pipe[1], POLLOUT, 0};
  struct timespec short_time = {0, 1000};
  struct flock range = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};
  struct epoll_event event;
  fd_set out;
  struct timeval zero = {0, 0};
  if (!strcmp(how, "poll-0")) poll(&one, 1, 0);
  if (!strcmp(how, "poll-ready")) poll(&ready, 1, 1000);
  if (!strcmp(how, "epoll-0")) epoll_wait(g_epoll, &event, 1, 0);
  if (!strcmp(how, "select-0")) {
    FD_ZERO(&out);
    FD_SET(g_pipe[1], &out);
    select(g_pipe[1] + 1, NULL, &out, NULL, &zero);
  }
  if (!strcmp(how, "sem-free")) sem_post(&g_there), sem_wait(&g_there);
  if (!strcmp(how, "rwlock-free")) pthread_rwlock_rdlock(&g_rwlock), pthread_rwlock_unlock(&g_rwlock);
  if (!strcmp(how, "fcntl-free")) fcntl(g_file, F_SETLKW, &range);
  if (!strcmp(how, "nanosleep")) nanosleep(&short_time, NULL);
  if (!strcmp(how, "sem-hand-over")) sem_post(&g_there), sem_wait(&g_back);
  if (!strcmp(how, "cond-hand-over")) take_turn(0);
}

int main(int argc, char **argv) {
  const char *how = argv[1];
  double best = 1e18;
  pthread_t thread;
  struct epoll_event event = {.events = EPOLLIN};
  (void)argc;
  g_calls = atol(argv[2]);
  if (pipe(g_pipe) != 0) return 1;
  event.data.fd = g_pipe[0];
  g_epoll = epoll_create1(0);
  epoll_ctl(g_epoll, EPOLL_CTL_ADD, g_pipe[0], &event);
  g_file = open("/dev/null", O_RDWR);
  sem_init(&g_there, 0, 0);
  sem_init(&g_back, 0, 0);
  if (!strcmp(how, "sem-hand-over")) pthread_create(&thread, NULL, answers_semaphores, NULL);
  if (!strcmp(how, "cond-hand-over")) pthread_create(&thread, NULL, answers_conditions, NULL);
  for (int round = 0; round < ROUNDS; ++round) {
    const double begin = now_ns();
    for (long i = 0; i < g_calls; ++i) call(how);
    const double took = (now_ns() - begin) / (double)g_calls;
    if (took < best) best = took;
  }
  printf("%.1f\n", best);
  return 0;
}
