// sandbox ACTION CALL COMMAND...: runs a command under a seccomp filter that is set as CALL says (prctl, seccomp: by
// libc's function; raw: by the kernel's own way, which no library sees). What the filter acts on are calls that the
// tracer makes at a process's start and end, and hardly anybody else; ACTION: kill, errno, nothing (says that the call
// was done), ask (kills only for calls with a certain argument), or allow.
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static const int kCalls[] = {SYS_statx,  SYS_fallocate, SYS_readlinkat, SYS_mkdirat, SYS_ftruncate,
                             SYS_getcwd, SYS_getrusage, SYS_unlinkat,   SYS_madvise, SYS_sched_getaffinity};
enum { kCount = sizeof kCalls / sizeof *kCalls };

static long by_hand(long number, long a, long b, long c) {
#if defined(__x86_64__)
  long ret;
  __asm__ volatile("syscall" : "=a"(ret) : "a"(number), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
  return ret;
#else
  register long x8 __asm__("x8") = number;
  register long x0 __asm__("x0") = a;
  register long x1 __asm__("x1") = b;
  register long x2 __asm__("x2") = c;
  __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
  return x0;
#endif
}

int main(int argc, char **argv) {
  if (argc < 4) return 2;
  unsigned action = SECCOMP_RET_ALLOW;
  int asks = !strcmp(argv[1], "ask");
  if (!strcmp(argv[1], "kill") || asks) action = SECCOMP_RET_KILL_PROCESS;
  if (!strcmp(argv[1], "errno")) action = SECCOMP_RET_ERRNO | EPERM;
  if (!strcmp(argv[1], "nothing")) action = SECCOMP_RET_ERRNO;
  struct sock_filter code[kCount + 5];
  int n = 0;
  code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
  for (int i = 0; i < kCount; ++i) {
    code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kCalls[i], kCount - i, 0);
  }
  code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  if (asks) {
    code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0]));
    code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 77, 1, 0);
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  }
  code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, action);
  struct sock_fprog program = {n, code};
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  long failed;
  if (!strcmp(argv[2], "prctl")) {
    failed = prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
  } else if (!strcmp(argv[2], "seccomp")) {
    failed = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
  } else {
    failed = by_hand(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, (long)&program);
  }
  if (failed) return perror("sandbox"), 3;
  execvp(argv[3], argv + 3);
  return perror(argv[3]), 127;
}
