/* Pointers that are null or wild, handed to everything that takes one: each line is a call's result and errno. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <netinet/in.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#define TRY(call)                               \
  do {                                          \
    errno = 0;                                  \
    long ret = (long)(call);                    \
    printf("%s = %ld %d\n", #call, ret, errno); \
  } while (0)

extern char **environ;

/* Environments and addresses that end where the memory does. */
static void at_the_end(char **argv) {
  char *memory = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *end = memory + 8192;
  mprotect(end, 4096, PROT_NONE);
  char **vector = (char **)end - 40;
  for (int i = 0; i < 40; ++i) vector[i] = "A=1";
  TRY(execve("/bin/true", argv, vector));
  const char *texts[] = {"A=1",        "TAILRACE_TAGS=stage=x", "TAILRACE", "LD_PRELOAD=/none.so",
                         "LD_PRELOAD", "TAILRACE_RUN="};
  for (int i = 0; i < 6; ++i) {
    char *text = end - strlen(texts[i]), *entries[] = {"B=2", text, NULL};
    memcpy(text, texts[i], strlen(texts[i]));
    TRY(execve("/bin/true", argv, entries));
    pid_t child;
    TRY(posix_spawn(&child, "/bin/true", NULL, NULL, argv, entries));
  }
  for (int i = 0; i < 40; ++i) vector[i] = i < 39 ? "A=1" : NULL;
  pid_t child = fork();
  if (child == 0) _exit(execve("/bin/echo", (char *[]){"echo", "its environment ends there", NULL}, vector) != 0);
  int status;
  waitpid(child, &status, 0);
  printf("child %d\n", status);
  int from = socket(AF_INET, SOCK_DGRAM, 0), to = socket(AF_INET, SOCK_DGRAM, 0);
  struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
  socklen_t bytes = sizeof here;
  bind(to, (void *)&here, bytes);
  getsockname(to, (void *)&here, &bytes);
  for (int room = 0; room < 20; room += 4) {
    char text[8];
    socklen_t *length = (socklen_t *)end - 1, own = room;
    sendto(from, "abc", 3, 0, (void *)&here, sizeof here);
    TRY(recvfrom(to, text, 3, 0, (void *)(end - room), &own));
    printf("%d\n", own);
    sendto(from, "abc", 3, 0, (void *)&here, sizeof here);
    *length = room;
    TRY(recvfrom(to, text, 3, 0, (void *)(end - 4 - room), length));
    sendto(from, "abc", 3, 0, (void *)&here, sizeof here);
    struct iovec part = {text, 3};
    TRY(recvmsg(to, &(struct msghdr){end - room, room, &part, 1}, 0));
    sendto(from, "abc", 3, 0, (void *)&here, sizeof here);
    TRY(recvmmsg(to, &(struct mmsghdr){{end - room, room, &part, 1}}, 1, 0, NULL));
  }
}

int main(void) {
  setvbuf(stdout, NULL, _IONBF, 0);
  int fd = open("file", O_RDWR | O_CREAT, 0600), ends[2], pair[2];
  socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair);
  pipe2(ends, O_NONBLOCK);
  write(fd, "content", 7);
  int datagrams[2];
  socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, datagrams);
  struct sockaddr_storage address;
  pid_t waiting = fork();
  if (waiting == 0) pause();
  struct stat s;
  struct statx x;
  char *argv[] = {"x", NULL};
  void *bads[] = {NULL, (void *)8, (void *)-4096, mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)};
  for (int i = 0; i < 4; ++i) {
    void *volatile bad = bads[i];
    printf("pointer %d\n", i);
    TRY(open(bad, O_RDONLY));
    TRY(open(bad, O_RDWR | O_CREAT, 0600));
    TRY(openat(AT_FDCWD, bad, O_RDONLY));
    TRY(creat(bad, 0600));
    TRY(fopen(bad, "r") != NULL);
    TRY(stat(bad, &s));
    TRY(stat("file", bad));
    TRY(lstat(bad, &s));
    TRY(fstat(fd, bad));
    TRY(statx(AT_FDCWD, bad, 0, STATX_SIZE, &x));
    TRY(statx(AT_FDCWD, "file", 0, STATX_SIZE, bad));
    TRY(fstatat(AT_FDCWD, bad, &s, 0));
    TRY(access(bad, R_OK));
    TRY(faccessat(AT_FDCWD, bad, R_OK, 0));
    TRY(lseek(fd, 0, SEEK_SET));
    TRY(read(fd, bad, 7));
    TRY(pread(fd, bad, 7, 0));
    TRY(write(fd, bad, 7));
    TRY(pwrite(fd, bad, 7, 0));
    TRY(readv(fd, bad, 2));
    TRY(writev(fd, bad, 2));
    TRY(preadv(fd, bad, 2, 0));
    TRY(pwritev2(fd, bad, 2, 0, 0));
    TRY(readv(fd, &(struct iovec){bad, 7}, 1));
    TRY(writev(fd, bad, 0));
    TRY(writev(fd, bad, -1));
    TRY(writev(9999, bad, 3));
    TRY(rename(bad, "new"));
    TRY(rename("file", bad));
    TRY(renameat(AT_FDCWD, "file", AT_FDCWD, bad));
    TRY(link("file", bad));
    TRY(link(bad, "new"));
    TRY(symlink(bad, "new"));
    TRY(symlink("file", bad));
    TRY(readlink(bad, (char *)&s, 10));
    TRY(readlink("file", bad, 10));
    TRY(unlink(bad));
    TRY(unlinkat(AT_FDCWD, bad, 0));
    TRY(remove(bad));
    TRY(mkdir(bad, 0700));
    TRY(rmdir(bad));
    TRY(truncate(bad, 0));
    TRY(chdir(bad));
    TRY(execv(bad, argv));
    TRY(execve("/no/such", bad, environ));
    TRY(memfd_create(bad, 0) < 0);
    if (i) TRY(pipe(bad));
    if (i) TRY(pipe2(bad, 0));
    if (i) TRY(socketpair(AF_UNIX, SOCK_STREAM, 0, bad));
    if (i) TRY(sendfile(fd, fd, bad, 1));
    if (i) TRY(copy_file_range(fd, bad, fd, NULL, 1, 0));
    /* Refused for another reason, before the kernel has looked at the pointer. */
    TRY(access(bad, 0xff));
    TRY(faccessat(AT_FDCWD, bad, 0xff, 0));
    TRY(fstatat(AT_FDCWD, bad, &s, 0x40000000));
    TRY(statx(AT_FDCWD, bad, 0, 0x80000000U, &x));
    TRY(truncate(bad, -1));
    TRY(readlink(bad, (char *)&s, 0));
    TRY(linkat(AT_FDCWD, bad, AT_FDCWD, "new", 0x40000000));
    TRY(renameat2(AT_FDCWD, bad, AT_FDCWD, bad, 0xff));
    TRY(unlinkat(AT_FDCWD, bad, 0x40000000));
    TRY(open(bad, O_DIRECTORY | O_CREAT | O_TMPFILE, 0600));
    TRY(memfd_create(bad, 0xffff));
    TRY(recv(fd, bad, 1, 0));
    TRY(send(fd, bad, 1, 0));
    TRY(sendmsg(pair[0], bad, 0));
    TRY(recvmsg(pair[0], bad, MSG_DONTWAIT));
    TRY(sendmsg(pair[0], &(struct msghdr){.msg_iov = bad, .msg_iovlen = 1}, 0));
    TRY(sendmmsg(pair[0], bad, 1, 0));
    TRY(recvmmsg(pair[0], bad, 1, MSG_DONTWAIT, NULL));
    TRY(sendto(pair[0], bad, 3, 0, NULL, 0));
    TRY(recvfrom(pair[0], (char *)&s, 3, MSG_DONTWAIT, bad, bad));
    TRY(connect(fd, bad, 10));
    TRY(bind(pair[0], bad, 10));
    TRY(accept(pair[0], bad, bad));
    TRY(splice(fd, bad, ends[1], NULL, 0, 0));
    TRY(vmsplice(ends[1], bad, 1, 0));
    TRY(ioctl(fd, FICLONERANGE, bad));
    TRY(ioctl(fd, FIONREAD, bad));
    TRY(fcntl(fd, F_SETLK, bad));
    TRY(chmod(bad, 0600));
    TRY(fchmodat(AT_FDCWD, bad, 0600, 0));
    TRY(chown(bad, -1, -1));
    TRY(fchownat(AT_FDCWD, bad, -1, -1, AT_SYMLINK_NOFOLLOW));
    TRY(fchownat(fd, bad, -1, -1, AT_EMPTY_PATH));
    TRY(utimensat(AT_FDCWD, bad, NULL, 0));
    if (i) TRY(futimens(fd, bad));
    TRY(setxattr(bad, "user.a", "b", 1, 0));
    TRY(setxattr("file", bad, "b", 1, 0));
    TRY(getxattr(bad, "user.a", &s, 10));
    TRY(listxattr(bad, (char *)&s, 10));
    TRY(removexattr("file", bad));
    TRY(mkfifo(bad, 0600));
    TRY(mknod(bad, S_IFREG | 0600, 0));
    TRY(getdents64(fd, bad, 100));
    TRY(syscall(SYS_openat, AT_FDCWD, bad, O_RDONLY));
    TRY(syscall(SYS_openat2, AT_FDCWD, "file", bad, 24L));
    TRY(syscall(SYS_openat2, AT_FDCWD, bad, bad, 24L));
    TRY(syscall(SYS_read, (long)fd, bad, 7L));
    TRY(syscall(SYS_writev, (long)fd, bad, 2L));
    if (i) TRY(syscall(SYS_copy_file_range, (long)fd, bad, (long)fd, NULL, 1L, 0L));
    if (i != 0) TRY(posix_spawn(NULL, "/no/such", NULL, NULL, argv, NULL));
    if (i) TRY(execve("/bin/true", argv, bad));
    if (i) TRY(execvpe("true", argv, bad));
    if (i) TRY(posix_spawn(NULL, "/bin/true", NULL, NULL, argv, bad));
    TRY(waitid(P_ALL, 0, bad, WEXITED | WNOHANG));
    send(datagrams[1], "abc", 3, 0);
    TRY(recvfrom(datagrams[0], (char *)&s, 3, MSG_DONTWAIT, (void *)&address, bad));
    send(datagrams[1], "abc", 3, 0);
    TRY(recvmsg(datagrams[0], &(struct msghdr){.msg_name = bad, .msg_namelen = 10}, MSG_DONTWAIT));
  }
  at_the_end(argv);
  TRY(write(fd, "", 0));
  TRY(read(fd, NULL, 0));
  TRY(read(-1, NULL, 5));
  TRY(fdopen(-1, "r") != NULL);
  TRY(fdopen(fd, "nonsense") != NULL);
  TRY(fopen("file", "") != NULL);
  TRY(open("", O_RDONLY));
  TRY(stat("", &s));
  TRY(rename("", ""));
  TRY(unlink(""));
  TRY(lseek(fd, -5, SEEK_SET));
  TRY(lseek(9999, 0, SEEK_CUR));
  TRY(mmap(NULL, 0, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED);
  TRY(mmap(NULL, 10, PROT_READ, MAP_SHARED, 9999, 0) == MAP_FAILED);
  TRY(preadv2(fd, NULL, 0, -1, 0));
  TRY(close(fd));
  TRY(close(fd));
  kill(waiting, SIGKILL);
  return 0;
}
