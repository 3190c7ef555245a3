/* accounts SEED COUNT [ignored]: starts COUNT children in random ways, which write and read random amounts and end in
 * random ways, and waits for them in random ways; `ignored`: nobody waits, SIGCHLD is ignored.
 *
 * Each child writes to its own files out.N.*, reads the file `data`, and says how much in the file `truth` before it ends.
 * The last line of the output has the sums: "WRITTEN READ STARTED".
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kBlock = 50000, kStack = 256 * 1024, kChildren = 4096 };

extern char **environ;
extern pid_t _Fork(void) __attribute__((weak));

struct truth {
  atomic_long written, read, started;
  atomic_int over[kChildren]; /* the child has done all of its I/O */
};

static struct truth *g_truth;
static char g_block[kBlock];
static const char *g_program;
static int g_is_ignored;

static unsigned next(unsigned *state) {
  *state = *state * 1664525u + 1013904223u;
  return *state >> 8;
}

static void fail(const char *what) {
  perror(what);
  _exit(99);
}

static void open_truth(void) {
  int fd = open("truth", O_RDWR | O_CREAT, 0666);
  if (fd < 0 || ftruncate(fd, sizeof *g_truth) != 0) fail("truth");
  g_truth = mmap(NULL, sizeof *g_truth, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (g_truth == MAP_FAILED) fail("mmap");
  close(fd);
}

/* What a child does. It allocates nothing: it may share the memory of its parent. */
static void work(int number, unsigned state) {
  char name[64];
  snprintf(name, sizeof name, "out.%d", number);
  long written = 0, taken = 0;
  int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_APPEND, 0666);
  if (fd < 0) fail(name);
  for (unsigned calls = next(&state) % 12; calls > 0; --calls) {
    size_t n = next(&state) % kBlock;
    struct iovec parts[2] = {{g_block, n / 3}, {g_block, n - n / 3}};
    switch (next(&state) % 3) {
      case 0: written += write(fd, g_block, n); break;
      case 1: written += writev(fd, parts, 2); break;
      default: written += pwrite(fd, g_block, n, 0); break;
    }
  }
  close(fd);
  int in = open("data", O_RDONLY);
  if (in < 0) fail("data");
  for (unsigned calls = next(&state) % 8; calls > 0; --calls) {
    static char unused[kBlock];
    taken += pread(in, unused, next(&state) % kBlock, next(&state) % kBlock);
  }
  close(in);
  g_truth->written += written;
  g_truth->read += taken;
  g_truth->over[number % kChildren] = 1;
}

static void *exit_in_thread(void *code) {
  exit((int)(long)code);
  return NULL;
}

/* The end of a process that has its memory to itself. */
static void end(unsigned state) {
  pthread_t thread;
  if (g_is_ignored) _exit(0);
  switch (next(&state) % 9) {
    case 0: exit(0);
    case 1: exit(7);
    case 2: _exit(3);
    case 3: quick_exit(4);
    case 4: abort();
    case 5: raise(SIGKILL); break;
    case 6: raise(SIGTERM); break;
    case 7:
      if (pthread_create(&thread, NULL, exit_in_thread, (void *)5) == 0) pthread_join(thread, NULL);
      exit(6);
    default: exit(0); /* and a signal right behind it: started by `killed` */
  }
}

/* The end of one that shares it. */
static void end_sharing(unsigned state) {
  if (next(&state) % 3 == 0) kill((pid_t)syscall(SYS_getpid), next(&state) % 2 ? SIGKILL : SIGTERM);
  _exit(next(&state) % 5);
}

struct task {
  int number;
  unsigned state;
};

static int in_clone(void *task) {
  work(((struct task *)task)->number, ((struct task *)task)->state);
  end(((struct task *)task)->state);
  return 0;
}

static int in_shared_clone(void *task) {
  work(((struct task *)task)->number, ((struct task *)task)->state);
  end_sharing(((struct task *)task)->state);
  return 0;
}

static pid_t by_clone(int (*run)(void *), int flags, int number, unsigned state) {
  /* Never freed: the child may run on it for as long as it likes. */
  char *stack = mmap(NULL, kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  struct task *task = (struct task *)stack;
  *task = (struct task){number, state};
  return clone(run, stack + kStack, flags | SIGCHLD, task);
}

static char g_number[16], g_state[16], g_missing[] = "./no-such-program";

static char **child_words(int number, unsigned state) {
  static char *words[6];
  snprintf(g_number, sizeof g_number, "%d", number);
  snprintf(g_state, sizeof g_state, "%u", state);
  words[0] = (char *)g_program;
  words[1] = (char *)"child";
  words[2] = g_number;
  words[3] = g_state;
  words[4] = g_is_ignored ? (char *)"ignored" : NULL;
  return words;
}

static pid_t by_vfork(unsigned how, int number, unsigned state) {
  char **words = child_words(number, state);
  pid_t pid = vfork();
  if (pid != 0) return pid;
  switch (how % 4) {
    case 0: execv(words[0], words); _exit(98);
    case 1:
      work(number, state);
      end_sharing(state);
      break;
    case 2:
      execv(g_missing, words);
      work(number, state);
      _exit(1);
    default: {
      /* One within the other. */
      pid_t inner = vfork();
      if (inner == 0) {
        execv(words[0], words);
        _exit(98);
      }
      waitpid(inner, NULL, 0);
      _exit(inner < 0);
    }
  }
  return pid;
}

static pid_t by_fork(unsigned how, int number, unsigned state) {
  char **words = child_words(number, state);
  pid_t pid = how % 2 && _Fork ? _Fork() : fork();
  if (pid != 0) return pid;
  if (how % 3 == 0) {
    execv(words[0], words);
    _exit(98);
  }
  work(number, state);
  end(state);
  return 0;
}

/* The child's child outlives it, and becomes ours (PR_SET_CHILD_SUBREAPER). */
static pid_t by_orphan(unsigned how, int number, unsigned state) {
  pid_t pid = fork();
  if (pid != 0) return pid;
  if (how % 2) {
    if (daemon(1, 1) != 0) fail("daemon");
  } else if (fork() != 0) {
    _exit(0);
  }
  work(number, state);
  end(state);
  return 0;
}

static void by_shell(unsigned how, int number, unsigned state) {
  char command[256], got[100];
  snprintf(command, sizeof command, "%s%s child %d %u %s", how % 2 ? "exec " : "", g_program, number, state,
           g_is_ignored ? "ignored" : "");
  if (how % 4 < 2) {
    (void)!system(command);
    return;
  }
  FILE *pipe = popen(command, "r");
  if (pipe == NULL) fail("popen");
  while (fread(got, 1, sizeof got, pipe) > 0)
    ;
  pclose(pipe);
}

static void *in_thread(void *task) {
  return (void *)(long)by_fork(0, ((struct task *)task)->number, ((struct task *)task)->state);
}

static pid_t killed(int number, unsigned state) {
  pid_t pid = fork();
  if (pid == 0) {
    work(number, state);
    if (next(&state) % 2) exit(0);
    _exit(2);
  }
  while (pid > 0 && !g_truth->over[number % kChildren]) sched_yield();
  if (pid > 0) kill(pid, SIGKILL);
  return pid;
}

static pid_t spawned(unsigned how, int number, unsigned state) {
  pid_t pid = 0;
  char **words = child_words(number, state);
  int error = posix_spawn(&pid, how % 3 ? words[0] : g_missing, NULL, NULL, words, environ);
  return error == 0 ? pid : 0;
}

static void start(int number, unsigned state) {
  unsigned kind = next(&state) % 11, how = next(&state);
  struct task task = {number, state};
  pthread_t thread;
  ++g_truth->started;
  switch (kind) {
    case 0: by_fork(how, number, state); break;
    case 1: by_vfork(how, number, state); break;
    case 2: by_clone(in_clone, how % 2 ? 0 : CLONE_FILES, number, state); break;
    case 3: by_clone(in_shared_clone, CLONE_VM | (how % 2 ? CLONE_FILES : 0), number, state); break;
    case 4: by_clone(in_shared_clone, CLONE_VM | CLONE_VFORK, number, state); break;
    case 5: spawned(how, number, state); break;
    case 6: by_shell(how, number, state); break;
    case 7: by_orphan(how, number, state); break;
    case 8:
      if (pthread_create(&thread, NULL, in_thread, &task) == 0) pthread_join(thread, NULL);
      break;
    case 9: g_is_ignored ? by_fork(how, number, state) : killed(number, state); break;
    default: by_fork(1, number, state); break;
  }
}

/* One child; false: there is none. */
static int wait_for_one(unsigned how) {
  siginfo_t info;
  int status;
  memset(&info, 0, sizeof info);
  switch (how % 6) {
    case 0: return wait(&status) > 0;
    case 1: return waitpid(-1, &status, 0) > 0;
    case 2: return wait4(-1, NULL, 0, NULL) > 0;
    case 3: return wait3(&status, 0, NULL) > 0;
    case 4: return waitid(P_ALL, 0, &info, WEXITED) == 0;
    default:
      if (waitid(P_ALL, 0, &info, WEXITED | WNOWAIT) != 0) return 0;
      return waitpid(info.si_pid, &status, 0) > 0;
  }
}

int main(int argc, char **argv) {
  g_program = argv[0];
  open_truth();
  if (argc > 3 && strcmp(argv[1], "child") == 0) {
    g_is_ignored = argc > 4;
    work(atoi(argv[2]), (unsigned)atol(argv[3]));
    end((unsigned)atol(argv[3]));
  }
  g_is_ignored = argc > 3;
  if (g_is_ignored) signal(SIGCHLD, SIG_IGN);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  unsigned state = (unsigned)atol(argv[1]);
  const int count = atoi(argv[2]);
  for (int number = 0; number < count; ++number) {
    start(number, next(&state));
    if (next(&state) % 3 == 0 && !g_is_ignored) wait_for_one(next(&state));
  }
  while (wait_for_one(g_is_ignored ? 0 : next(&state)))
    ;
  printf("%ld %ld %ld\n", g_truth->written, g_truth->read, g_truth->started);
  return 0;
}
