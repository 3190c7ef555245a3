/* system, popen and pclose: what they answer, by how the command ended. */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void print_handler(int signal) { printf("signal %d\n", signal); }

static int close_popen(const char *command, const char *mode) {
  FILE *f = popen(command, mode);
  if (!f) return -errno;
  char line[100];
  if (*mode == 'r')
    while (fgets(line, sizeof line, f)) fputs(line, stdout);
  else
    fputs("to the child\n", f);
  return pclose(f);
}

int main(void) {
  const char *commands[] = {"exit 0",
                            "exit 3",
                            "kill -9 $$",
                            "kill -TERM $$",
                            "no-such-command 2>/dev/null",
                            "true | false",
                            "",
                            "echo out; echo err >&2",
                            "cat; exit 5",
                            "kill -INT $$",
                            "kill -PIPE $$",
                            NULL};
  setvbuf(stdout, NULL, _IONBF, 0);
  printf("null %d\n", system(NULL) != 0);
  for (const char **c = commands; *c; ++c) {
    printf("system(%s) = %d\n", *c, system(*c));
    printf("popen r %d\n", close_popen(*c, "r"));
    if (strcmp(*c, "exit 0")) continue;
    for (int i = 0; i < 3; ++i) printf("popen %d\n", close_popen("cat; exit 4", i ? "w" : "we"));
  }
  printf("modes %d %d %d %d\n", close_popen("true", "x"), close_popen("true", "rw"), close_popen("true", ""),
         close_popen("echo e", "re"));
  /* Two at once: the first's end of file must not wait for the second. */
  FILE *first = popen("cat", "w"), *second = popen("cat", "w");
  fputs("first\n", first);
  printf("first %d\n", pclose(first));
  fputs("second\n", second);
  printf("second %d\n", pclose(second));
  FILE *closed = popen("exit 3", "r");
  printf("fclose %d\n", fclose(closed));
  printf("left %d\n", waitpid(-1, NULL, WNOHANG));
  FILE *shut = popen("echo sure", "r");
  char line[10];
  printf("%s", fgets(line, 10, shut) ? line : "none");
  printf("%d\n", pclose(shut));
  signal(SIGCHLD, print_handler);
  printf("with SIGCHLD %d\n", system("exit 2"));
  signal(SIGCHLD, SIG_IGN);
  printf("ignored %d\n", system("exit 2"));
  printf("%d\n", errno == ECHILD);
  signal(SIGCHLD, SIG_DFL);
  signal(SIGINT, SIG_IGN);
  printf("ignored INT %d\n", system("kill -INT $$; echo survived"));
  signal(SIGINT, print_handler);
  printf("handled INT %d\n", system("kill -INT $PPID; kill -INT $$; echo not reached"));
  raise(SIGINT);
  return 0;
}
