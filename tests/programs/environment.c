/* What a program sees of its environment, and what its children get when it is cleared or written over: environment
 * WHAT. */
#define _GNU_SOURCE
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

int main(int argc, char **argv) {
  const char *what = argv[argc - 1];
  if (!strcmp(what, "print")) {
    for (char **e = environ; *e; ++e) puts(*e);
    printf("%s\n", getenv("LD_PRELOAD") ? getenv("LD_PRELOAD") : "no LD_PRELOAD");
    fflush(stdout);
    return system("env | sort > /dev/null; test -z \"$TAILRACE_RUN$LD_PRELOAD$TAILRACE_TAGS\"; echo $? >&1");
  }
  if (!strcmp(what, "setproctitle")) {
    /* All of argv and environ, from end to end, as ps would show it. */
    char *begin = argv[0], *end = begin;
    for (int i = 0; i < argc; ++i)
      if (argv[i] == end) end += strlen(end) + 1;
    for (char **e = environ; *e; ++e)
      if (*e >= end && *e < end + 200000) end = *e + strlen(*e) + 1;
    static char *empty[] = {NULL};
    memset(begin, 'x', (size_t)(end - begin) - 1);
    environ = empty;
    return system("/bin/echo title > titled");
  }
  if (!strcmp(what, "clear")) {
    clearenv();
    char *child[] = {"cp", "given", "copied", NULL}, *none[] = {NULL};
    pid_t pid;
    int status = 0;
    posix_spawn(&pid, "/bin/cp", NULL, NULL, child, none);
    waitpid(pid, &status, 0);
    return status;
  }
  return 2;
}
