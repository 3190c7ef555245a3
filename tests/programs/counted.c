/* Threads that read and note in a shared file how far each has come: counted FILE THREADS READS HOW [BASE [STOP]]
 *
 * Thread i's read number n is pread(fd, byte, 1, BASE + n); its counter is n + 1 once it returned. So a trace must have, of
 * each thread, the offsets from BASE to BASE + counter, each once, and may have one more: of a call that had not returned to
 * the program. FILE has, for each thread, its tid and its counter (two words of 64 bits).
 *
 * HOW:  end      returns from main
 *       _exit    ends by _exit(2) while the threads still read
 *       exec     executes itself, with FILE.2, HOW end and BASE 1000000000, from another thread while all still read
 *       fork     forks halfway; the child reads as well, into FILE.2, and both return
 *
 * Where READS is 0, the threads go on until they are killed, with pauses, but for the first one, which has STOP reads:
 *       wait     STOP is 0: it goes on, too
 *       leader   it ends by pthread_exit(3), and the process has a zombie for its first thread
 *       execs    another thread executes the program then, into FILE.<n> with BASE n * 1000000000, and so on
 *       forks    it forks again and again; child n has STOP reads, into FILE.<n>, and ends by _exit(2)
 *
 * A handler of SIGUSR1 calls _exit(2), one of SIGUSR2 abort(3).
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kMost = 64, kAtOnce = 1000000000 };
struct Counter {
  volatile uint64_t tid, done, pauses;
};
static struct Counter *counters;
static uint64_t reads, base, stop;

static void die(const char *what) {
  perror(what);
  exit(2);
}

static struct Counter *map_counters(const char *path) {
  int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
  if (fd < 0 || ftruncate(fd, kMost * sizeof(struct Counter)) < 0) die(path);
  void *p = mmap(NULL, kMost * sizeof(struct Counter), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (p == MAP_FAILED) die("mmap");
  close(fd);
  return p;
}

static void take_pause(struct Counter *mine, useconds_t us) {
  usleep(us);
  ++mine->pauses;
}

static void read_on(struct Counter *mine, int fd, uint64_t from, uint64_t to) {
  char byte;
  for (uint64_t n = from; n < to || !to; ++n) {
    if (pread(fd, &byte, 1, (off_t)(base + n)) < 0) die("pread");
    mine->done = n + 1;
    if (!reads && n % 1024 == 0) take_pause(mine, 2000);
  }
}

static void *reader(void *argument) {
  struct Counter *mine = argument;
  int fd = open("/etc/hostname", O_RDONLY | O_CLOEXEC);
  if (fd < 0) die("open");
  mine->tid = (uint64_t)syscall(SYS_gettid);
  read_on(mine, fd, 0, mine == counters && stop ? stop : reads);
  return NULL;
}

static char **arguments;

static void *replacer(void *unused) {
  char next[4096];
  (void)unused;
  while (counters[0].done < reads / 2) take_pause(&counters[kMost - 1], 100);
  snprintf(next, sizeof next, "%s.2", arguments[1]);
  execl(arguments[0], arguments[0], next, arguments[2], arguments[3], "end", "1000000000", NULL);
  die("execl");
  return NULL;
}

static const char *numbered(char *room, size_t bytes, uint64_t n) {
  snprintf(room, bytes, n ? "%s.%llu" : "%s", arguments[1], (unsigned long long)n);
  return room;
}

static void *executor(void *unused) {
  char next[32];
  (void)unused;
  while (counters[0].done < stop) take_pause(&counters[kMost - 1], 50);
  snprintf(next, sizeof next, "%llu", (unsigned long long)(base + kAtOnce));
  execl(arguments[0], arguments[0], arguments[1], arguments[2], "0", "execs", next, arguments[6], NULL);
  die("execl");
  return NULL;
}

static void fork_on(void) {
  char name[4096];
  for (uint64_t n = 1;; ++n) {
    pid_t child = fork();
    if (child < 0) die("fork");
    if (child == 0) {
      counters = map_counters(numbered(name, sizeof name, n));
      reader(&counters[0]);
      _exit(0);
    }
    waitpid(child, NULL, 0);
  }
}

static void leave(int number) {
  if (number == SIGUSR2) abort();
  _exit(0);
}

int main(int argc, char **argv) {
  char name[4096];
  if (argc < 5) return 2;
  base = argc > 5 ? strtoull(argv[5], NULL, 10) : 0;
  stop = argc > 6 ? strtoull(argv[6], NULL, 10) : 0;
  pthread_t threads[kMost], other;
  int n = atoi(argv[2]);
  reads = strtoull(argv[3], NULL, 10);
  const char *how = argv[4];
  arguments = argv;
  signal(SIGUSR1, leave);
  signal(SIGUSR2, leave);
  counters = map_counters(strcmp(how, "execs") ? argv[1] : numbered(name, sizeof name, base / kAtOnce));
  if (!strcmp(how, "execs") && pthread_create(&other, NULL, executor, NULL)) die("pthread_create");
  if (!strcmp(how, "exec") && pthread_create(&other, NULL, replacer, NULL)) die("pthread_create");
  for (int i = 1; i < n; ++i) {
    if (pthread_create(&threads[i], NULL, reader, &counters[i])) die("pthread_create");
  }
  if (!strcmp(how, "fork")) {
    int fd = open("/etc/hostname", O_RDONLY | O_CLOEXEC);
    counters[0].tid = (uint64_t)syscall(SYS_gettid);
    read_on(&counters[0], fd, 0, reads / 2);
    pid_t child = fork();
    if (child < 0) die("fork");
    if (child == 0) {
      char next[4096];
      snprintf(next, sizeof next, "%s.2", argv[1]);
      counters = map_counters(next);
      reader(&counters[0]);
      return 0;
    }
    read_on(&counters[0], fd, reads / 2, reads);
    waitpid(child, NULL, 0);
  } else {
    reader(&counters[0]);
  }
  if (!strcmp(how, "exec") || !strcmp(how, "execs")) pause();
  if (!strcmp(how, "forks")) fork_on();
  if (!strcmp(how, "leader")) pthread_exit(NULL);
  if (!strcmp(how, "_exit")) _exit(0);
  for (int i = 1; i < n; ++i) pthread_join(threads[i], NULL);
  return 0;
}
