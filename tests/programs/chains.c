/* The same process in program after program, by every exec there is: chains [N [ARGUMENT...]]. Each appends a line to
 * `out`. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

extern char **environ;

int main(int argc, char **argv) {
  int n = argc > 1 ? atoi(argv[1]) : 0;
  FILE *out = fopen("out", "a");
  fprintf(out, "%d %d:", n, argc);
  for (int i = 2; i < argc; ++i) fprintf(out, " [%s]", argv[i]);
  fprintf(out, " %s\n", getenv("MINE") ? getenv("MINE") : "-");
  fclose(out);
  char self[4096] = {0}, next[16];
  readlink("/proc/self/exe", self, sizeof self - 1);
  sprintf(next, "%d", n + 1);
  char *array[] = {"chains", next, "a b", "", NULL}, *given[] = {"MINE=given", "PATH=/usr/bin:/bin", NULL};
  switch (n) {
    case 0: execl(self, "chains", next, "one", "two words", "", "four", (char *)0); break;
    case 1: execle(self, "chains", next, "e", (char *)0, given); break;
    case 2: execv(self, array); break;
    case 3: execve(self, array, given); break;
    case 4:
      *strrchr(self, '/') = 0;
      setenv("PATH", self, 1);
      setenv("MINE", "set", 1);
      execlp("chains", "chains", next, (char *)0);
      break;
    case 5: execvp("chains", array); break;
    case 6: execvpe("chains", array, given); break;
    case 7: fexecve(open(self, O_RDONLY | O_CLOEXEC), array, given); break;
    case 8:
      clearenv();
      execv(self, array);
      break;
    case 9: execve(self, array, NULL); break;
    case 10:
      execl("/no/such", "x", (char *)0);
      execlp("no-such-command", "x", (char *)0);
      execl(self, "chains", next, (char *)0);
      break;
    case 11: {
      char *name = strrchr(self, '/');
      *name = 0;
      int directory = open(self, O_PATH | O_DIRECTORY | O_CLOEXEC);
      *name = '/';
      execveat(directory, name + 1, array, given, 0);
      break;
    }
    case 12: execveat(open(self, O_PATH | O_CLOEXEC), "", array, given, AT_EMPTY_PATH); break;
    case 13: syscall(SYS_execve, self, array, given); break;
    case 14: syscall(SYS_execveat, open(self, O_PATH | O_CLOEXEC), "", array, given, AT_EMPTY_PATH); break;
    case 15:
      execveat(77, "nobody", array, given, 0);
      execveat(AT_FDCWD, (char *)8, array, given, 0);
      return 11;
  }
  perror("exec");
  return 1;
}
