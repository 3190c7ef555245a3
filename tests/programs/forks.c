/* Children that share memory, miss their command, or cut their ties: forks WHAT. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static int g_a, g_b;

static void put(int fd, const char *text) { write(fd, text, strlen(text)); }

static int wait_for(pid_t pid) {
  int status = -1;
  waitpid(pid, &status, 0);
  return status;
}

/* The child moves descriptors about, as posix_spawn's actions do; its parent's are its own. */
static void vfork_moves_descriptors(void) {
  pid_t pid = vfork();
  if (pid == 0) {
    dup2(g_b, g_a);
    close(g_b);
    execlp("no-such-command", "no-such-command", (char *)0);
    _exit(errno == ENOENT ? 44 : 45);
  }
  printf("vfork %d\n", wait_for(pid));
  put(g_a, "abc");
  put(g_b, "defgh");
}

/* The parent goes on when the child has executed its program, long after it began. */
static void vfork_takes_its_time(void) {
  pid_t pid = vfork();
  if (pid == 0) {
    usleep(200000);
    execlp("true", "true", (char *)0);
    _exit(46);
  }
  printf("vfork %d\n", wait_for(pid));
}

static void missing_commands(void) {
  for (int i = 0; i < 20; ++i) {
    pid_t pid = vfork();
    if (pid == 0) {
      execl("/no/such", "such", (char *)0);
      _exit(41);
    }
    if (i == 19)
      printf("vfork %d\n", wait_for(pid));
    else
      wait_for(pid);
    char *argv[] = {"such", NULL};
    int a = posix_spawn(&pid, "/no/such", NULL, NULL, argv, environ);
    int b = posix_spawnp(&pid, "no-such-command", NULL, NULL, argv, environ);
    if (i == 19) printf("spawn %d %d\n", a, b);
    pid = fork();
    if (pid == 0) put(g_a, "f"), _exit(7);
    wait_for(pid);
  }
  put(g_a, "abc");
}

static void become_daemon(void) {
  dup2(g_a, 1);
  put(1, "before");
  if (daemon(1, 0)) _exit(9);
  put(1, "to nowhere");
  put(g_b, "daemon");
  int done = open("done", O_WRONLY | O_CREAT, 0600);
  put(done, "d");
}

/* As servers do it by hand: every descriptor is closed, the tracer's own or not. */
static void close_everything(void) {
  if (fork() > 0) _exit(0);
  setsid();
  for (int fd = 0; fd < 4096; ++fd) close(fd);
  open("/dev/null", O_RDWR);
  int out = open("closed", O_WRONLY | O_CREAT, 0600);
  put(out, "after closing all");
  closefrom(0);
  close_range(0, ~0U, 0);
  out = open("closed2", O_WRONLY | O_CREAT, 0600);
  put(out, "again");
  out = open("done", O_WRONLY | O_CREAT, 0600);
  put(out, "d");
}

/* Children of all kinds, each of which returns from main. */
static int returns(void) {
  put(g_a, "parent\n");
  for (int i = 0; i < 3; ++i) {
    if (fork() == 0) {
      put(g_a, "child\n");
      return 20 + i;
    }
  }
  int sum = 0, status;
  while (wait(&status) > 0) sum += WEXITSTATUS(status);
  put(g_a, "parent\n");
  printf("%d\n", sum);
  fflush(stdout);
  return 0;
}

int main(int argc, char **argv) {
  const char *what = argv[argc - 1];
  g_a = open("a", O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600);
  g_b = open("b", O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (!strcmp(what, "vfork")) vfork_moves_descriptors();
  if (!strcmp(what, "slow")) vfork_takes_its_time();
  if (!strcmp(what, "missing")) missing_commands();
  if (!strcmp(what, "daemon")) become_daemon();
  if (!strcmp(what, "close")) close_everything();
  if (!strcmp(what, "returns")) return returns();
  return 0;
}
