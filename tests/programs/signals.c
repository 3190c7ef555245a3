/* Signals in the middle of I/O: signals WHAT. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

static sigjmp_buf g_back;
static volatile sig_atomic_t g_handled, g_ready;
static int g_out, g_handler_out;

static void jumps(int signal) {
  (void)signal;
  if (!g_ready) return;
  ++g_handled;
  siglongjmp(g_back, 1);
}

static void writes(int signal) {
  (void)signal;
  int saved = errno;
  write(g_handler_out, "handler\n", 8);
  int fd = open("opened", O_WRONLY | O_CREAT | O_APPEND, 0600);
  write(fd, "0123456789", 10);
  close(fd);
  ++g_handled;
  errno = saved;
}

static void nothing(int signal) { (void)signal; }

static void every_us(int us) {
  struct itimerval timer = {{0, us}, {0, us}};
  setitimer(ITIMER_REAL, &timer, NULL);
}

int main(int argc, char **argv) {
  const char *what = argv[argc - 1];
  g_out = open("out", O_WRONLY | O_CREAT | O_TRUNC, 0600);
  g_handler_out = open("handler", O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (!strcmp(what, "jump")) {
    signal(SIGALRM, jumps);
    every_us(150);
    sigsetjmp(g_back, 1);
    g_ready = 1;
    while (g_handled < 500) write(g_out, "0123456789", 10);
    g_ready = 0;
    every_us(0);
    write(g_out, "end", 3);
  }
  if (!strcmp(what, "handler")) {
    signal(SIGALRM, writes);
    every_us(100);
    while (g_handled < 2000) {
      write(g_out, "0123456789", 10);
      close(open("churn", O_WRONLY | O_CREAT, 0600));
    }
    every_us(0);
    signal(SIGALRM, SIG_IGN);
  }
  if (!strcmp(what, "interrupt")) {
    struct sigaction action = {.sa_handler = nothing};
    sigaction(SIGALRM, &action, NULL);
    int ends[2];
    char c;
    pipe(ends);
    for (int i = 0; i < 3; ++i) {
      alarm(0);
      every_us(0);
      /* Again and again: the first may come before the read waits. */
      every_us(20000);
      errno = 0;
      long n = read(ends[0], &c, 1);
      int why = errno;
      every_us(0);
      printf("%ld %d\n", n, why);
    }
  }
  sigset_t mask;
  sigprocmask(SIG_SETMASK, NULL, &mask);
  for (int s = 1; s < 65; ++s)
    if (sigismember(&mask, s) == 1) printf("blocked %d\n", s);
  return 0;
}
