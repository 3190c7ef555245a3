/* memory_sharers ROUNDS: tasks that share one memory write files of their own at the same time: the process itself, a child
 * of clone(CLONE_VM), another one with our descriptors, and the vfork children of the first two. Each file WHO.ROUND has
 * 100 + ROUND bytes. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kStack = 256 * 1024 };

static int g_rounds;
static char g_block[8192];

static void put(const char *who, int round) {
  char name[64];
  snprintf(name, sizeof name, "%s.%d", who, round);
  int fd = open(name, O_WRONLY | O_CREAT | O_EXCL, 0666);
  if (fd < 0 || write(fd, g_block, 100 + round) != 100 + round || close(fd) != 0) _exit(99);
}

static void by_vfork(const char *who, int round) {
  pid_t pid = vfork();
  if (pid == 0) {
    put(who, round);
    _exit(0);
  }
  int status;
  if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0) _exit(98);
}

static int alone(void *unused) {
  (void)unused;
  for (int round = 0; round < g_rounds; ++round) {
    put("alone", round);
    by_vfork("alones-child", round);
  }
  return 0;
}

static int with_files(void *unused) {
  (void)unused;
  for (int round = 0; round < g_rounds; ++round) put("with-files", round);
  return 0;
}

static pid_t start(int (*run)(void *), int flags) {
  char *stack = mmap(NULL, kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (stack == MAP_FAILED) _exit(97);
  return clone(run, stack + kStack, CLONE_VM | SIGCHLD | flags, NULL);
}

int main(int argc, char **argv) {
  (void)argc;
  g_rounds = atoi(argv[1]);
  put("main", 0);
  pid_t children[] = {start(alone, 0), start(with_files, CLONE_FILES)};
  for (int round = 1; round < g_rounds; ++round) {
    put("main", round);
    by_vfork("mains-child", round);
  }
  for (int at = 0; at < 2; ++at) {
    int status;
    if (children[at] < 0 || waitpid(children[at], &status, 0) != children[at] || status != 0) return 1;
  }
  puts("done");
  return 0;
}
