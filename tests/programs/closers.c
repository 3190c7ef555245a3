/* Every way to close a descriptor, each followed by a pipe or a socket that gets the number: closers. */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <mntent.h>
#include <mqueue.h>
#include <pty.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utmp.h>

extern int __close(int);
extern int __dup2(int, int);
extern int _IO_fclose(FILE *);

static int number;  // of the descriptor to close
static FILE *stream;

static void by_close(void) { close(number); }
static void by_second_name(void) { __close(number); }
static void by_syscall(void) { syscall(SYS_close, (long)number); }
static void by_close_range(void) { close_range(number, number, 0); }
static void by_syscall_range(void) { syscall(SYS_close_range, (long)number, (long)number, 0L); }
static void by_closefrom(void) { closefrom(number); }
static void by_mq_close(void) { mq_close(number); }
static void by_fclose(void) { fclose(stream); }
static void by_libio_fclose(void) { _IO_fclose(stream); }
static void by_endmntent(void) { endmntent(stream); }
static void by_pclose(void) { pclose(stream); }
static void by_freopen(void) { fclose(freopen("/dev/null", "r", stream)); }
static void by_dup2(void) {
  int fd = open("/dev/null", O_RDWR);
  dup2(fd, number), close(fd), close(number);
}
static void by_second_dup2(void) {
  int fd = open("/dev/null", O_RDWR);
  __dup2(fd, number), close(fd), close(number);
}
static void by_dup3(void) {
  int fd = open("/dev/null", O_RDWR);
  dup3(fd, number, O_CLOEXEC), close(fd), close(number);
}
static void by_syscall_dup2(void) {
#ifdef SYS_dup2
  int fd = open("/dev/null", O_RDWR);
  syscall(SYS_dup2, (long)fd, (long)number), close(fd);
#endif
  close(number);
}
static void by_syscall_dup3(void) {
  int fd = open("/dev/null", O_RDWR);
  syscall(SYS_dup3, (long)fd, (long)number, 0L), close(fd), close(number);
}
static void by_closedir(void) {
  close(number);
  DIR *dir = opendir(".");
  number = dirfd(dir);
  closedir(dir);
}

static void (*const closers[])(void) = {
    by_close,       by_second_name, by_syscall,      by_close_range,  by_syscall_range, by_closefrom,
    by_mq_close,    by_fclose,      by_libio_fclose, by_endmntent,    by_freopen,       by_dup2,
    by_second_dup2, by_dup3,        by_syscall_dup2, by_syscall_dup3, by_closedir,
};

/* What gets the number: a pipe's or a socket's end, made by a call that we see or one that we don't. */
static void phantom(int way) {
  int ends[2];
  if (way == 0) pipe(ends);
  if (way == 1) socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
  if (way == 2) syscall(SYS_pipe2, ends, 0L);
  if (way == 3) syscall(SYS_socketpair, (long)AF_UNIX, (long)SOCK_STREAM, 0L, ends);
  if (way == 4) {
    int terminal;
    openpty(&ends[1], &terminal, NULL, NULL, NULL);
    ends[0] = terminal;
  }
  char bytes[13];
  write(ends[1], "phantom bytes", 13);
  if (way != 4) read(ends[0], bytes, sizeof bytes);
  close(ends[0]), close(ends[1]);
}

int main(void) {
  int file = creat("file", 0600);
  write(file, "file", 4), close(file);
  int n = sizeof closers / sizeof *closers;
  for (int i = 0; i < n; ++i) {
    for (int way = 0; way < 5; ++way) {
      int dir = i == n - 1;
      stream = fopen("file", "r+");
      number = fileno(stream);
      char bytes[4];
      pread(number, bytes, 4, 0);
      pwrite(number, "file", 4, 0);
      int is_stream = closers[i] == by_fclose || closers[i] == by_libio_fclose || closers[i] == by_endmntent ||
                      closers[i] == by_freopen;
      if (!is_stream) {
        /* The descriptor is what is closed, not a stream over it. */
        int fd = dup(number);
        fclose(stream);
        number = fd;
        pwrite(number, "file", 4, 0);
      }
      closers[i]();
      int next = dup(0);
      if (next > number && !dir) printf("closer %d leaves %d open\n", i, number);
      close(next);
      phantom(way);
    }
  }
  /* In a child, as login_tty closes 0, 1 and 2; the parent's are its own. */
  int terminal, pid = forkpty(&terminal, NULL, NULL, NULL);
  if (pid == 0) {
    write(1, "to the terminal\n", 16);
    _exit(0);
  }
  char bytes[100];
  while (read(terminal, bytes, sizeof bytes) > 0) continue;
  int status;
  waitpid(pid, &status, 0);
  printf("%d\n", status);
  return 0;
}
