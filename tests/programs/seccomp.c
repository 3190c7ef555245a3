// Confines itself as `argv[1]` says, then reads, writes and ends with status 7 and nothing but what it allowed itself:
// strict (read, write and exit alone; even the time stamp counter is forbidden), strict_call (the same by syscall(2)),
// errno (a filter that refuses what is not on its list) and kill (one that kills for it).
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static int set_filter(unsigned refusal) {
  static const int allowed[] = {SYS_read,       SYS_write, SYS_exit_group, SYS_exit,  SYS_brk,      SYS_close,
                                SYS_newfstatat, SYS_fstat, SYS_lseek,      SYS_fcntl, SYS_getrandom};
  enum { kAllowed = sizeof allowed / sizeof *allowed };
  struct sock_filter code[kAllowed + 3];
  code[0] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
  for (int i = 0; i < kAllowed; ++i) {
    code[1 + i] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, allowed[i], kAllowed - i, 0);
  }
  code[kAllowed + 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, refusal);
  code[kAllowed + 2] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  struct sock_fprog program = {kAllowed + 3, code};
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

int main(int argc, char **argv) {
  const char *how = argv[1];
  int times = argc > 2 ? atoi(argv[2]) : 3, failed;
  int out = open("out", O_CREAT | O_WRONLY, 0600), in = open("given", O_RDONLY);
  if (!strcmp(how, "strict")) {
    failed = prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
  } else if (!strcmp(how, "strict_call")) {
    failed = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 0, NULL);
  } else {
    failed = set_filter(!strcmp(how, "kill") ? SECCOMP_RET_KILL_PROCESS : SECCOMP_RET_ERRNO | EPERM);
  }
  if (failed) return 3;
  char buffer[64];
  for (int i = 0; i < times; ++i) {
    if (read(in, buffer, 4) < 0) syscall(SYS_exit, 4);
    if (write(out, "abcdefghij", 10) != 10) syscall(SYS_exit, 5);
  }
  write(1, "done\n", 5);
  if (how[0] == 's') syscall(SYS_exit, 7);
  close(out);
  return 7;
}
