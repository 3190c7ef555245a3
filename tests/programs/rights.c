// Gives up its rights or its root, as daemons do, and goes on doing I/O.
//   rights HOW READS CHILDREN CHILD_READS [COMMAND...]
// The children are forked after that, each reads as often, and the last one executes the command.
#define _GNU_SOURCE
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kNobody = 65534 };

static int give_up(const char *how) {
  if (!strcmp(how, "setuid")) return setgroups(0, NULL) || setgid(kNobody) || setuid(kNobody);
  if (!strcmp(how, "seteuid")) return seteuid(kNobody);
  if (!strcmp(how, "setreuid")) return setreuid(kNobody, kNobody);
  if (!strcmp(how, "setresuid")) return setresuid(kNobody, kNobody, kNobody);
  if (!strcmp(how, "setfsuid")) return setfsuid(kNobody) != 0;
  if (!strcmp(how, "raw")) return syscall(SYS_setresuid, kNobody, kNobody, kNobody) != 0;
  if (!strcmp(how, "chroot")) return chroot(".") || chdir("/");
  if (!strcmp(how, "jail")) return chroot(".") || chdir("/") || setgid(kNobody) || setuid(kNobody);
  return 0;
}

static void read_often(int fd, long times) {
  char byte;
  for (long i = 0; i < times; ++i) {
    if (pread(fd, &byte, 1, 0) != 1) abort();
  }
}

int main(int argc, char **argv) {
  int fd = open("given", O_RDONLY);
  long reads = atol(argv[2]), children = atol(argv[3]), child_reads = atol(argv[4]);
  if (give_up(argv[1])) return 1;
  read_often(fd, reads);
  for (long i = 0; i < children; ++i) {
    if (fork() == 0) {
      read_often(fd, child_reads);
      if (argc > 5 && i == children - 1) execvp(argv[5], argv + 5);
      _exit(argc > 5 && i == children - 1 ? 127 : 0);
    }
  }
  int status, failed = 0;
  while (wait(&status) > 0) failed += status != 0;
  printf("%ld reads, %d failed\n", reads + children * child_reads, failed);
  return 0;
}
