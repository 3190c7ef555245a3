// A program that no preload enters: linked statically, or with musl. Its first argument says what it does:
//   copy FROM TO     copies by every way of moving bytes
//   behave           prints what a program that is followed could see: signals, stops, children, its own tracing
//   wait FIFO FILE   opens FILE a hundred times when somebody has written to FIFO
//   start PROGRAM... starts the program and ends as it does
//   who              prints its effective user and who traces it
// Any unexpected result of a call ends it with its line's number.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

static char g_bytes[1000];

static void *read_in_thread(void *name) {
  int fd = open(name, O_RDONLY);
  CHECK(fd >= 0 && read(fd, g_bytes, 100) == 100 && pread(fd, g_bytes, 50, 300) == 50 && close(fd) == 0);
  return NULL;
}

static void copy(char *from, const char *to) {
  struct stat about;
  int in = open(from, O_RDONLY), out = open("made", O_RDWR | O_CREAT | O_TRUNC, 0600);
  CHECK(in >= 0 && out >= 0 && fstat(in, &about) == 0);
  CHECK(read(in, g_bytes, 1000) == 1000 && write(out, g_bytes, 1000) == 1000);
  CHECK(pread(in, g_bytes, 500, 2000) == 500 && pwrite(out, g_bytes, 500, 1000) == 500);
  struct iovec two[] = {{g_bytes, 30}, {g_bytes + 30, 70}};
  CHECK(readv(in, two, 2) == 100 && writev(out, two, 2) == 100);
  CHECK(sendfile(out, in, NULL, 200) == 200);
  int again = dup(in), high = fcntl(in, F_DUPFD, 50);
  CHECK(again >= 0 && high >= 50 && dup2(out, 60) == 60);
  CHECK(close(in) == 0 && read(again, g_bytes, 10) == 10 && read(high, g_bytes, 10) == 10);
  CHECK(write(60, g_bytes, 20) == 20 && close(60) == 0);
  int ends[2], status;
  CHECK(pipe(ends) == 0);
  pid_t child = fork();
  if (child == 0) {
    int fd = open("child", O_WRONLY | O_CREAT, 0600);
    CHECK(close(ends[0]) == 0 && write(ends[1], g_bytes, 40) == 40 && write(fd, g_bytes, 60) == 60);
    _exit(5);
  }
  CHECK(close(ends[1]) == 0 && read(ends[0], g_bytes, 1000) == 40 && read(ends[0], g_bytes, 1) == 0);
  CHECK(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 5);
  pthread_t threads[4];
  for (int i = 0; i < 4; ++i) CHECK(pthread_create(&threads[i], NULL, read_in_thread, from) == 0);
  for (int i = 0; i < 4; ++i) CHECK(pthread_join(threads[i], NULL) == 0);
  CHECK(mkdir("folder", 0700) == 0 && rename("made", "folder/moved") == 0 && link("folder/moved", to) == 0);
  CHECK(unlink("folder/moved") == 0 && symlink(to, "soft") == 0 && rmdir("folder") == 0);
  CHECK(open("absent", O_RDONLY) < 0 && errno == ENOENT);
  CHECK(lseek(again, 0, SEEK_SET) == 0);
  for (ssize_t n; (n = read(again, g_bytes, sizeof g_bytes)) > 0;) CHECK(write(1, g_bytes, (size_t)n) == n);
}

static volatile sig_atomic_t g_signals;
static void on_signal(int number) { g_signals += number; }

static int status_of(pid_t child, int flags) {
  int status = -1;
  CHECK(waitpid(child, &status, flags) == child);
  return status;
}

static void behave(void) {
  struct sigaction action = {0};
  action.sa_handler = on_signal;
  CHECK(sigaction(SIGALRM, &action, NULL) == 0 && sigaction(SIGUSR1, &action, NULL) == 0);
  int ends[2];
  CHECK(pipe(ends) == 0);
  // Again and again, since the first one may come before the read.
  struct itimerval often = {{0, 100000}, {0, 100000}}, never = {{0, 0}, {0, 0}};
  CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0);
  ssize_t n = read(ends[0], g_bytes, 1);
  int error = errno;
  CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
  printf("interrupted %zd %d\n", n, error);
  g_signals = 0;
  raise(SIGUSR1);
  printf("signals %d\n", (int)g_signals);
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    raise(SIGSTOP);
    _exit(3);
  }
  printf("stopped %x\n", status_of(child, WUNTRACED));
  kill(child, SIGCONT);
  printf("ended %x\n", status_of(child, 0));
  fflush(stdout);
  child = fork();
  if (child == 0) {
    kill(getpid(), SIGKILL);
    pause();
  }
  printf("killed %x\n", status_of(child, 0));
  fflush(stdout);
  child = fork();
  if (child == 0) {
    CHECK(ptrace(PTRACE_TRACEME, 0, 0, 0) == 0);
    raise(SIGTRAP);
    _exit(4);
  }
  printf("traced %x\n", status_of(child, 0));
  CHECK(ptrace(PTRACE_CONT, child, 0, 0) == 0);
  printf("let go %x\n", status_of(child, 0));
  printf("descriptors %d\n", dup(0));
}

static void wait_for(const char *fifo, const char *file) {
  int fd = open(fifo, O_RDONLY);
  CHECK(fd >= 0 && read(fd, g_bytes, 1) == 1);
  for (int i = 0; i < 100; ++i) {
    int opened = open(file, O_RDONLY);
    CHECK(opened >= 0 && read(opened, g_bytes, 10) == 10 && close(opened) == 0);
  }
}

static void start(char **arguments) {
  pid_t child = fork();
  if (child == 0) {
    execv(arguments[0], arguments);
    _exit(127);
  }
  _exit(WEXITSTATUS(status_of(child, 0)));
}

static void who(void) {
  static char text[8192];
  int fd = open("/proc/self/status", O_RDONLY);
  CHECK(fd >= 0 && read(fd, text, sizeof text - 1) > 0);
  printf("%d %d\n", (int)geteuid(), atoi(strstr(text, "TracerPid:") + strlen("TracerPid:")));
}

int main(int count, char **arguments) {
  CHECK(count > 1);
  if (strcmp(arguments[1], "copy") == 0) copy(arguments[2], arguments[3]);
  if (strcmp(arguments[1], "behave") == 0) behave();
  if (strcmp(arguments[1], "wait") == 0) wait_for(arguments[2], arguments[3]);
  if (strcmp(arguments[1], "start") == 0) start(arguments + 2);
  if (strcmp(arguments[1], "who") == 0) who();
  return 0;
}
