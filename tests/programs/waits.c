/* Waits in every way, and says how long: waits HOW.
 * A line for each wait on standard output: the function, ns by the program's own clock, and what the call returned. The
 * clock is read right before and right after the call, so the call's own time is never more. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

#define MS 1000000L
#define PAUSE_NS (120 * MS)

static long now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000L + t.tv_nsec;
}

/* Not by a hook: a thread that only lets time pass leaves no wait of its own. */
static void pass(long ns) {
  struct timespec t = {ns / 1000000000L, ns % 1000000000L};
  long ret;
  asm volatile("syscall" : "=a"(ret) : "a"(SYS_nanosleep), "D"(&t), "S"(0) : "rcx", "r11", "memory");
}

static struct timespec after(clockid_t clock, long ns) {
  struct timespec t;
  clock_gettime(clock, &t);
  ns += t.tv_nsec;
  t.tv_sec += ns / 1000000000L;
  t.tv_nsec = ns % 1000000000L;
  return t;
}

#define TIMED(name, call)                      \
  do {                                         \
    const long begin_ = now_ns();              \
    const long ret_ = (long)(call);            \
    const long took_ = now_ns() - begin_;      \
    printf("%s %ld %ld\n", name, took_, ret_); \
  } while (0)

static void sleeps(void) {
  struct timespec wanted = {0, PAUSE_NS}, until = after(CLOCK_MONOTONIC, PAUSE_NS);
  TIMED("clock_nanosleep", clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL));
  TIMED("nanosleep", nanosleep(&wanted, NULL));
  TIMED("usleep", usleep(PAUSE_NS / 1000));
  TIMED("thrd_sleep", thrd_sleep(&wanted, NULL));
  TIMED("sleep", sleep(1));
}

static int g_pipe[2];
static void *writes(void *unused) {
  pass(PAUSE_NS);
  CHECK(write(g_pipe[1], "x", 1) == 1);
  return unused;
}

static void wait_for_byte(const char *how) {
  pthread_t thread;
  struct pollfd fds[2] = {{-1, POLLIN, 0}, {g_pipe[0], POLLIN, 0}};
  struct epoll_event event = {.events = EPOLLIN, .data.fd = g_pipe[0]};
  fd_set in;
  char byte;
  const int instance = epoll_create1(0);
  CHECK(epoll_ctl(instance, EPOLL_CTL_ADD, g_pipe[0], &event) == 0);
  FD_ZERO(&in);
  FD_SET(g_pipe[0], &in);
  CHECK(pthread_create(&thread, NULL, writes, NULL) == 0);
  if (!strcmp(how, "poll")) TIMED("poll", poll(fds, 2, 5000));
  if (!strcmp(how, "ppoll")) TIMED("ppoll", ppoll(fds, 2, NULL, NULL));
  if (!strcmp(how, "select")) TIMED("select", select(g_pipe[0] + 1, &in, NULL, NULL, NULL));
  if (!strcmp(how, "pselect")) TIMED("pselect", pselect(g_pipe[0] + 1, &in, NULL, NULL, NULL, NULL));
  if (!strcmp(how, "epoll_wait")) TIMED("epoll_wait", epoll_wait(instance, &event, 1, 5000));
  if (!strcmp(how, "epoll_pwait")) TIMED("epoll_pwait", epoll_pwait(instance, &event, 1, -1, NULL));
  CHECK(read(g_pipe[0], &byte, 1) == 1 && close(instance) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
}

static void polls(void) {
  const char *ways[] = {"poll", "ppoll", "select", "pselect", "epoll_wait", "epoll_pwait"};
  CHECK(pipe(g_pipe) == 0);
  for (int i = 0; i < 6; ++i) wait_for_byte(ways[i]);
}

static pthread_mutex_t g_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t g_condition = PTHREAD_COND_INITIALIZER;
static cnd_t g_c11;
static mtx_t g_c11_mutex;
static sem_t g_semaphore;
static pthread_rwlock_t g_rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_barrier_t g_barrier;
static int g_word, g_ready;
static const char *g_how;

static void *answers(void *unused) {
  const char *how = g_how;
  if (strstr(how, "rwlock")) {
    CHECK(pthread_rwlock_wrlock(&g_rwlock) == 0);
    __atomic_store_n(&g_ready, 1, __ATOMIC_SEQ_CST);
  }
  pass(PAUSE_NS);
  if (strstr(how, "rwlock")) CHECK(pthread_rwlock_unlock(&g_rwlock) == 0);
  if (strstr(how, "pthread_cond")) {
    pthread_mutex_lock(&g_mutex);
    pthread_cond_signal(&g_condition);
    pthread_mutex_unlock(&g_mutex);
  }
  if (strstr(how, "cnd")) {
    mtx_lock(&g_c11_mutex);
    cnd_signal(&g_c11);
    mtx_unlock(&g_c11_mutex);
  }
  if (strstr(how, "sem")) sem_post(&g_semaphore);
  if (strstr(how, "barrier")) pthread_barrier_wait(&g_barrier);
  if (strstr(how, "futex")) {
    __atomic_store_n(&g_word, 1, __ATOMIC_SEQ_CST);
    syscall(SYS_futex, &g_word, FUTEX_WAKE, 1, NULL, NULL, 0);
  }
  return unused;
}

static void wait_for_thread(const char *how) {
  struct timespec late = after(CLOCK_REALTIME, 60000 * MS), late_monotonic = after(CLOCK_MONOTONIC, 60000 * MS);
  pthread_t thread;
  g_how = how;
  g_word = g_ready = 0;
  pthread_mutex_lock(&g_mutex);
  mtx_lock(&g_c11_mutex);
  CHECK(pthread_create(&thread, NULL, answers, NULL) == 0);
  while (strstr(how, "rwlock") && !__atomic_load_n(&g_ready, __ATOMIC_SEQ_CST)) continue;
  if (!strcmp(how, "pthread_cond_wait")) TIMED(how, pthread_cond_wait(&g_condition, &g_mutex));
  if (!strcmp(how, "pthread_cond_timedwait")) TIMED(how, pthread_cond_timedwait(&g_condition, &g_mutex, &late));
  if (!strcmp(how, "pthread_cond_clockwait"))
    TIMED(how, pthread_cond_clockwait(&g_condition, &g_mutex, CLOCK_MONOTONIC, &late_monotonic));
  if (!strcmp(how, "cnd_wait")) TIMED(how, cnd_wait(&g_c11, &g_c11_mutex));
  if (!strcmp(how, "cnd_timedwait")) TIMED(how, cnd_timedwait(&g_c11, &g_c11_mutex, &late));
  if (!strcmp(how, "sem_wait")) TIMED(how, sem_wait(&g_semaphore));
  if (!strcmp(how, "sem_timedwait")) TIMED(how, sem_timedwait(&g_semaphore, &late));
  if (!strcmp(how, "sem_clockwait")) TIMED(how, sem_clockwait(&g_semaphore, CLOCK_MONOTONIC, &late_monotonic));
  if (!strcmp(how, "pthread_rwlock_rdlock")) TIMED(how, pthread_rwlock_rdlock(&g_rwlock));
  if (!strcmp(how, "pthread_rwlock_wrlock")) TIMED(how, pthread_rwlock_wrlock(&g_rwlock));
  if (!strcmp(how, "pthread_barrier_wait")) TIMED(how, pthread_barrier_wait(&g_barrier));
  if (!strcmp(how, "futex")) TIMED(how, syscall(SYS_futex, &g_word, FUTEX_WAIT, 0, NULL, NULL, 0));
  if (strstr(how, "rwlock")) pthread_rwlock_unlock(&g_rwlock);
  mtx_unlock(&g_c11_mutex);
  pthread_mutex_unlock(&g_mutex);
  if (!strcmp(how, "pthread_join")) {
    TIMED(how, pthread_join(thread, NULL));
  } else {
    CHECK(pthread_join(thread, NULL) == 0);
  }
}

static void threads(void) {
  const char *ways[] = {"pthread_cond_wait",
                        "pthread_cond_timedwait",
                        "pthread_cond_clockwait",
                        "cnd_wait",
                        "cnd_timedwait",
                        "sem_wait",
                        "sem_timedwait",
                        "sem_clockwait",
                        "pthread_rwlock_rdlock",
                        "pthread_rwlock_wrlock",
                        "pthread_barrier_wait",
                        "futex",
                        "pthread_join"};
  cnd_init(&g_c11);
  mtx_init(&g_c11_mutex, mtx_plain);
  sem_init(&g_semaphore, 0, 0);
  pthread_barrier_init(&g_barrier, NULL, 2);
  for (int i = 0; i < 13; ++i) wait_for_thread(ways[i]);
}

static void on_alarm(int number) { (void)number; }

static void signals(void) {
  sigset_t set, none;
  siginfo_t info;
  struct timespec long_time = {60, 0};
  struct itimerval in_a_while = {{0, 0}, {0, PAUSE_NS / 1000}};
  int number;
  sigemptyset(&none);
  sigemptyset(&set);
  sigaddset(&set, SIGALRM);
  signal(SIGALRM, on_alarm);
  sigprocmask(SIG_BLOCK, &set, NULL);
  setitimer(ITIMER_REAL, &in_a_while, NULL);
  TIMED("sigwait", sigwait(&set, &number));
  setitimer(ITIMER_REAL, &in_a_while, NULL);
  TIMED("sigwaitinfo", sigwaitinfo(&set, &info));
  setitimer(ITIMER_REAL, &in_a_while, NULL);
  TIMED("sigtimedwait", sigtimedwait(&set, &info, &long_time));
  setitimer(ITIMER_REAL, &in_a_while, NULL);
  TIMED("sigsuspend", sigsuspend(&none));
  sigprocmask(SIG_UNBLOCK, &set, NULL);
  setitimer(ITIMER_REAL, &in_a_while, NULL);
  TIMED("pause", pause());
}

static int g_queue, g_set;
static void *posts(void *unused) {
  struct {
    long type;
    char byte;
  } message = {1, 'x'};
  struct sembuf up = {0, 1, 0};
  pass(PAUSE_NS);
  CHECK(msgsnd(g_queue, &message, 1, 0) == 0);
  pass(PAUSE_NS);
  CHECK(semop(g_set, &up, 1) == 0);
  pass(PAUSE_NS);
  CHECK(semop(g_set, &up, 1) == 0);
  return unused;
}

static void system_v(void) {
  struct {
    long type;
    char byte;
  } message;
  struct sembuf down = {0, -1, 0};
  struct timespec long_time = {60, 0};
  pthread_t thread;
  g_queue = msgget(IPC_PRIVATE, 0600);
  g_set = semget(IPC_PRIVATE, 1, 0600);
  CHECK(g_queue >= 0 && g_set >= 0 && pthread_create(&thread, NULL, posts, NULL) == 0);
  TIMED("msgrcv", msgrcv(g_queue, &message, 1, 0, 0));
  TIMED("semop", semop(g_set, &down, 1));
  TIMED("semtimedop", semtimedop(g_set, &down, 1, &long_time));
  CHECK(pthread_join(thread, NULL) == 0);
  msgctl(g_queue, IPC_RMID, NULL);
  semctl(g_set, 0, IPC_RMID);
}

/* A child locks bytes 10 to 14 and holds them; `how` asks for a range that they are in. */
static void wait_for_lock(int fd, const char *how) {
  int ready[2];
  char byte;
  CHECK(pipe(ready) == 0);
  const int pid = fork();
  if (pid == 0) {
    struct flock range = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 10, .l_len = 5};
    const int own = open("locked", O_RDWR);
    CHECK(own >= 0 && (!strcmp(how, "flock") ? flock(own, LOCK_EX) : fcntl(own, F_SETLK, &range)) == 0);
    CHECK(write(ready[1], "x", 1) == 1);
    pass(PAUSE_NS);
    _exit(0);
  }
  struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_CUR, .l_start = -4, .l_len = 100};
  CHECK(pid > 0 && read(ready[0], &byte, 1) == 1 && lseek(fd, 4, SEEK_SET) == 4);
  printf("holder %d 0\n", pid);
  if (!strcmp(how, "fcntl")) TIMED("fcntl", fcntl(fd, F_SETLKW, &all));
  if (!strcmp(how, "lockf")) TIMED("lockf", lockf(fd, F_LOCK, 20));
  if (!strcmp(how, "flock")) TIMED("flock", flock(fd, LOCK_SH));
  if (!strcmp(how, "busy")) TIMED("fcntl", fcntl(fd, F_SETLK, &all));
  all.l_type = F_UNLCK;
  CHECK(fcntl(fd, F_SETLK, &all) == 0 && flock(fd, LOCK_UN) == 0);
  CHECK(waitpid(pid, NULL, 0) == pid && close(ready[0]) == 0 && close(ready[1]) == 0);
}

static void locks(const char *how) {
  const int fd = open("locked", O_RDWR | O_CREAT, 0600);
  CHECK(fd >= 0);
  wait_for_lock(fd, how);
}

/* Many short waits, some of which are none. */
static void loops(void) {
  int pair[2];
  CHECK(pipe(pair) == 0);
  struct pollfd one = {pair[0], POLLIN, 0};
  const long begin = now_ns();
  for (int i = 0; i < 2000; ++i) CHECK(poll(&one, 1, 1) == 0);
  printf("poll %ld 2000\n", now_ns() - begin);
  for (int i = 0; i < 100000; ++i) CHECK(poll(&one, 1, 0) == 0);
  sem_init(&g_semaphore, 0, 1000);
  for (int i = 0; i < 1000; ++i) CHECK(sem_wait(&g_semaphore) == 0);
}

/* ---- what must be as without a tracer: the output has no times ---- */

#define SAID(name, call)                       \
  do {                                         \
    errno = 77;                                \
    const long ret_ = (long)(call);            \
    const int error_ = errno;                  \
    printf("%s %ld %d\n", name, ret_, error_); \
  } while (0)

static void errors(void) {
  struct timespec past = {1, 0}, wrong = {0, -1};
  struct flock range = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
  struct pollfd none = {-1, 0, 0};
  struct epoll_event event = {0};
  SAID("poll a bad pointer", poll((struct pollfd *)8, 1, 1000));
  SAID("poll nothing", poll(&none, 1, 1));
  SAID("nanosleep by a bad pointer", nanosleep((struct timespec *)8, NULL));
  SAID("nanosleep wrongly", nanosleep(&wrong, NULL));
  SAID("clock_nanosleep wrongly", clock_nanosleep(CLOCK_MONOTONIC, 0, &wrong, NULL));
  SAID("epoll_ctl closed", epoll_ctl(999, EPOLL_CTL_ADD, 0, &event));
  SAID("epoll_wait closed", epoll_wait(999, &event, 1, 1));
  SAID("fcntl closed", fcntl(999, F_SETLKW, &range));
  SAID("fcntl by a bad pointer", fcntl(1, F_SETLKW, (struct flock *)8));
  SAID("flock closed", flock(999, LOCK_EX));
  SAID("lockf closed", lockf(999, F_LOCK, 1));
  SAID("lockf wrongly", lockf(1, 77, 1));
  pthread_mutex_lock(&g_mutex);
  SAID("timedwait late", pthread_cond_timedwait(&g_condition, &g_mutex, &past));
  sem_init(&g_semaphore, 0, 1);
  SAID("sem_wait free", sem_wait(&g_semaphore));
  SAID("sem_timedwait late", sem_timedwait(&g_semaphore, &past));
  SAID("select no descriptors", select(0, NULL, NULL, NULL, &(struct timeval){0, 1000}));
  SAID("rdlock free", pthread_rwlock_rdlock(&g_rwlock));
  SAID("wrlock deadlock", pthread_rwlock_tryrdlock(&g_rwlock));
  SAID("join itself", pthread_join(pthread_self(), NULL));
}

/* Each is cancelled, blocked in the call or before it where the call would not block. */
static int g_locked;
static void *is_cancelled(void *unused) {
  const char *how = g_how;
  struct flock range = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
  struct pollfd none = {-1, 0, 0};
  struct timespec long_time = {60, 0};
  if (strstr(how, "pending")) {
    while (!__atomic_load_n(&g_ready, __ATOMIC_SEQ_CST)) continue;
  }
  if (strstr(how, "sem_wait")) sem_wait(&g_semaphore);
  if (strstr(how, "cond")) pthread_mutex_lock(&g_mutex), pthread_cond_wait(&g_condition, &g_mutex);
  if (strstr(how, "poll")) poll(&none, 1, strstr(how, "pending") ? 0 : 60000);
  if (strstr(how, "sleep")) nanosleep(&long_time, NULL);
  if (strstr(how, "fcntl")) fcntl(g_locked, F_SETLKW, &range);
  if (strstr(how, "lockf")) lockf(g_locked, F_LOCK, 0);
  if (strstr(how, "join")) pthread_join(*(pthread_t *)unused, NULL);
  return "returned";
}

static void *lives(void *unused) {
  pause();
  return unused;
}

static void cancellations(void) {
  const char *ways[] = {"sem_wait",         "cond",         "poll",          "sleep",        "fcntl", "lockf", "join",
                        "sem_wait pending", "poll pending", "fcntl pending", "lockf pending"};
  int ready[2];
  char byte;
  CHECK(pipe(ready) == 0);
  g_locked = open("locked", O_RDWR | O_CREAT, 0600);
  const int pid = fork();
  if (pid == 0) {
    struct flock range = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    CHECK(fcntl(g_locked, F_SETLK, &range) == 0 && write(ready[1], "x", 1) == 1);
    pause();
  }
  CHECK(read(ready[0], &byte, 1) == 1);
  for (int i = 0; i < 11; ++i) {
    pthread_t thread, living;
    void *result = NULL;
    const int is_pending = strstr(ways[i], "pending") != NULL;
    g_how = ways[i];
    g_ready = 0;
    if (i == 7) kill(pid, SIGKILL), waitpid(pid, NULL, 0);
    sem_init(&g_semaphore, 0, (unsigned)is_pending);
    pthread_create(&living, NULL, lives, NULL);
    CHECK(pthread_create(&thread, NULL, is_cancelled, &living) == 0);
    if (!is_pending) pass(50 * MS);
    CHECK(pthread_cancel(thread) == 0);
    __atomic_store_n(&g_ready, 1, __ATOMIC_SEQ_CST);
    CHECK(pthread_join(thread, &result) == 0);
    printf("%s %s\n", ways[i], result == PTHREAD_CANCELED ? "cancelled" : (const char *)result);
    pthread_mutex_init(&g_mutex, NULL);
    pthread_cancel(living);
    pthread_join(living, NULL);
  }
}

/* A handler that interrupts the wait, and one that jumps out of it. */
static sigjmp_buf g_out;
static void jumps_out(int number) { siglongjmp(g_out, number); }

static void interruptions(void) {
  struct itimerval soon = {{0, 0}, {0, 50000}};
  struct flock range = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
  struct timespec long_time = {60, 0};
  struct pollfd none = {-1, 0, 0};
  struct sigaction by = {.sa_handler = on_alarm};
  int ready[2];
  char byte;
  CHECK(pipe(ready) == 0);
  const int fd = open("locked", O_RDWR | O_CREAT, 0600), pid = fork();
  if (pid == 0) {
    const int own = open("locked", O_RDWR);
    CHECK(fcntl(own, F_SETLK, &range) == 0 && flock(own, LOCK_EX) == 0 && write(ready[1], "x", 1) == 1);
    pause();
  }
  CHECK(read(ready[0], &byte, 1) == 1);
  sem_init(&g_semaphore, 0, 0);
  for (int jumps = 0; jumps < 2; ++jumps) {
    by.sa_handler = jumps ? jumps_out : on_alarm;
    sigaction(SIGALRM, &by, NULL);
    for (volatile int i = 0; i < 6; ++i) {
      const int number = sigsetjmp(g_out, 1);
      if (number) {
        printf("%d jumped %d\n", i, number);
        continue;
      }
      setitimer(ITIMER_REAL, &soon, NULL);
      if (i == 0) SAID("fcntl", fcntl(fd, F_SETLKW, &range));
      if (i == 1) SAID("lockf", lockf(fd, F_LOCK, 0));
      if (i == 2) SAID("flock", flock(fd, LOCK_EX));
      if (i == 3) SAID("nanosleep", nanosleep(&long_time, NULL));
      if (i == 4) SAID("poll", poll(&none, 1, 60000));
      if (i == 5) SAID("sem_wait", sem_wait(&g_semaphore));
    }
  }
  kill(pid, SIGKILL);
  CHECK(waitpid(pid, NULL, 0) == pid);
}

/* A handler that asks for the call to be made again: some are, some never (signal(7)). Each wait ends by itself. */
static void restarts(void) {
  struct itimerval soon = {{0, 0}, {0, 30000}};
  struct sigaction by = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
  struct timespec a_while = {0, 100 * MS}, late = after(CLOCK_REALTIME, 100 * MS), left = {9, 9};
  struct pollfd none = {-1, 0, 0};
  pthread_t thread;
  sigaction(SIGALRM, &by, NULL);
  sem_init(&g_semaphore, 0, 0);
  setitimer(ITIMER_REAL, &soon, NULL);
  SAID("nanosleep", nanosleep(&a_while, &left));
  printf("left %d\n", left.tv_sec == 0 && left.tv_nsec > 0 && left.tv_nsec < 100 * MS);
  setitimer(ITIMER_REAL, &soon, NULL);
  SAID("clock_nanosleep", clock_nanosleep(CLOCK_MONOTONIC, 0, &a_while, NULL));
  setitimer(ITIMER_REAL, &soon, NULL);
  SAID("poll", poll(&none, 1, 100));
  setitimer(ITIMER_REAL, &soon, NULL);
  SAID("select", select(0, NULL, NULL, NULL, &(struct timeval){0, 100000}));
  setitimer(ITIMER_REAL, &soon, NULL);
  SAID("sleep", sleep(1));
  setitimer(ITIMER_REAL, &soon, NULL);
  SAID("sem_timedwait", sem_timedwait(&g_semaphore, &late));
  late = after(CLOCK_REALTIME, 100 * MS);
  setitimer(ITIMER_REAL, &soon, NULL);
  pthread_mutex_lock(&g_mutex);
  SAID("cond_timedwait", pthread_cond_timedwait(&g_condition, &g_mutex, &late));
  pthread_mutex_unlock(&g_mutex);
  CHECK(pipe(g_pipe) == 0 && pthread_create(&thread, NULL, writes, NULL) == 0);
  setitimer(ITIMER_REAL, &soon, NULL);
  SAID("join", pthread_join(thread, NULL));
}

/* Waits of a child, and of its child, whose parents were in the middle of theirs; a handler that forks in a wait. */
static int g_stop;
static void *looks(void *unused) {
  struct pollfd none = {-1, 0, 0};
  while (!__atomic_load_n(&g_stop, __ATOMIC_SEQ_CST)) {
    CHECK(poll(&none, 1, 0) == 0);
    CHECK(sem_trywait(&g_semaphore) == -1 || sem_post(&g_semaphore) == 0);
  }
  return unused;
}

static void child_waits(void) {
  struct pollfd none = {-1, 0, 0};
  struct timespec a_while = {0, MS / 10};
  for (int i = 0; i < 1000; ++i) CHECK(poll(&none, 1, 0) == 0);
  CHECK(nanosleep(&a_while, NULL) == 0 && poll(&none, 1, 1) == 0);
}

static void forks_in_handler(int number) {
  const int saved = errno, pid = fork();
  (void)number;
  if (pid == 0) {
    child_waits();
    _exit(5);
  }
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
  g_ready += WIFEXITED(status) && WEXITSTATUS(status) == 5;
  errno = saved;
}

static void forks(void) {
  struct pollfd none = {-1, 0, 0};
  pthread_t thread;
  sem_init(&g_semaphore, 0, 1);
  CHECK(pthread_create(&thread, NULL, looks, NULL) == 0);
  for (int i = 0; i < 20; ++i) {
    CHECK(poll(&none, 1, 0) == 0);
    const int pid = fork();
    if (pid == 0) {
      child_waits();
      const int child = i % 4 ? 0 : fork();
      if (child == 0 && i % 4 == 0) child_waits(), _exit(0);
      if (child > 0) CHECK(waitpid(child, NULL, 0) == child);
      _exit(i);
    }
    int status;
    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == i);
  }
  __atomic_store_n(&g_stop, 1, __ATOMIC_SEQ_CST);
  CHECK(pthread_join(thread, NULL) == 0);
  struct sigaction by = {.sa_handler = forks_in_handler};
  struct itimerval often = {{0, 3000}, {0, 3000}}, never = {{0, 0}, {0, 0}};
  sigaction(SIGALRM, &by, NULL);
  setitimer(ITIMER_REAL, &often, NULL);
  while (g_ready < 20) {
    for (int i = 0; i < 1000; ++i) CHECK(poll(&none, 1, i == 0) == 0 || errno == EINTR);
  }
  setitimer(ITIMER_REAL, &never, NULL);
  printf("all ended\n");
}

/* A child that has its parent's memory waits, and so does the parent afterwards. */
static void vforks(void) {
  struct pollfd none = {-1, 0, 0};
  for (volatile int i = 0; i < 20; ++i) {
    CHECK(poll(&none, 1, 0) == 0);
    const int pid = vfork();
    if (pid == 0) {
      poll(&none, 1, 0);
      usleep(200);
      _exit(i);
    }
    int status;
    CHECK(poll(&none, 1, 0) == 0 && poll(&none, 1, 1) == 0);
    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == i);
  }
  printf("all ended\n");
}

/* Two processes that wait for each other's range: the kernel refuses the second. */
static void deadlock(void) {
  struct flock range = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};
  int to_child[2], to_parent[2];
  char byte;
  CHECK(pipe(to_child) == 0 && pipe(to_parent) == 0);
  const int fd = open("locked", O_RDWR | O_CREAT, 0600), pid = fork();
  if (pid == 0) {
    range.l_start = 1;
    CHECK(fcntl(fd, F_SETLK, &range) == 0 && write(to_parent[1], "x", 1) == 1 && read(to_child[0], &byte, 1) == 1);
    range.l_start = 0;
    _exit(fcntl(fd, F_SETLKW, &range) == 0 ? 3 : 4);
  }
  CHECK(fcntl(fd, F_SETLK, &range) == 0 && read(to_parent[0], &byte, 1) == 1 && write(to_child[1], "x", 1) == 1);
  pass(100 * MS);
  range.l_start = 1;
  SAID("deadlock", fcntl(fd, F_SETLKW, &range));
  range.l_type = F_UNLCK;
  range.l_start = 0;
  CHECK(fcntl(fd, F_SETLK, &range) == 0);
  int status;
  CHECK(waitpid(pid, &status, 0) == pid);
  printf("child %d\n", WEXITSTATUS(status));
}

/* flock's conversion gives up the lock that there is, whoever asks. */
static void conversion(void) {
  int ready[2], done[2];
  char byte;
  CHECK(pipe(ready) == 0 && pipe(done) == 0);
  const int fd = open("locked", O_RDWR | O_CREAT, 0600);
  CHECK(flock(fd, LOCK_SH) == 0);
  const int pid = fork();
  if (pid == 0) {
    const int own = open("locked", O_RDWR);
    CHECK(flock(own, LOCK_SH) == 0 && write(ready[1], "x", 1) == 1);
    pass(150 * MS);
    SAID("child converts", flock(own, LOCK_EX | LOCK_NB));
    fflush(stdout);
    CHECK(flock(own, LOCK_UN) == 0);
    _exit(0);
  }
  CHECK(read(ready[0], &byte, 1) == 1);
  SAID("parent converts", flock(fd, LOCK_EX));
  CHECK(waitpid(pid, NULL, 0) == pid);
}

int main(int argc, char **argv) {
  const char *how = argc > 1 ? argv[1] : "";
  setvbuf(stdout, NULL, _IOLBF, 0);
  if (!strcmp(how, "sleeps")) sleeps();
  if (!strcmp(how, "polls")) polls();
  if (!strcmp(how, "threads")) threads();
  if (!strcmp(how, "signals")) signals();
  if (!strcmp(how, "system_v")) system_v();
  if (!strcmp(how, "locks")) locks(argv[2]);
  if (!strcmp(how, "loops")) loops();
  if (!strcmp(how, "errors")) errors();
  if (!strcmp(how, "cancellations")) cancellations();
  if (!strcmp(how, "interruptions")) interruptions();
  if (!strcmp(how, "restarts")) restarts();
  if (!strcmp(how, "forks")) forks();
  if (!strcmp(how, "vforks")) vforks();
  if (!strcmp(how, "deadlock")) deadlock();
  if (!strcmp(how, "conversion")) conversion();
  return 0;
}
