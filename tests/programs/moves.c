/* Calls that move bytes other than by read and write: moves WHAT [DATA]. */
#define _GNU_SOURCE
#include <aio.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <mqueue.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static char buffer[100000];

static int create(const char *name) { return open(name, O_RDWR | O_CREAT | O_TRUNC, 0600); }

static void sockets(void) {
  int ends[2];
  socketpair(AF_UNIX, SOCK_DGRAM, 0, ends);
  struct iovec parts[2] = {{buffer, 100}, {buffer + 100, 50}};
  struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
  sendmsg(ends[0], &message, 0);
  parts[0].iov_len = 1000;
  recvmsg(ends[1], &message, 0);
  struct mmsghdr several[3] = {};
  for (int i = 0; i < 3; ++i) several[i].msg_hdr = message, several[i].msg_hdr.msg_iovlen = 1;
  sendmmsg(ends[0], several, 3, 0);
  recvmmsg(ends[1], several, 3, MSG_DONTWAIT, NULL);
  send(ends[0], buffer, 7, 0);
  recv(ends[1], buffer, 100, 0);
  sendto(ends[0], buffer, 9, 0, NULL, 0);
  recvfrom(ends[1], buffer, 5, 0, NULL, NULL);
  sendmsg(ends[0], (struct msghdr *)8, 0);
  recvmsg(ends[0], &message, MSG_DONTWAIT);
}

/* A descriptor comes by a message, takes the number of one that was closed, and is written to. */
static void passed(void) {
  int ends[2], given = create("given"), file = create("old");
  socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
  write(file, "old", 3);
  union {
    struct cmsghdr header;
    char room[CMSG_SPACE(sizeof(int))];
  } control;
  struct iovec part = {buffer, 1};
  struct msghdr message = {
      .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
  struct cmsghdr *c = CMSG_FIRSTHDR(&message);
  c->cmsg_level = SOL_SOCKET, c->cmsg_type = SCM_RIGHTS, c->cmsg_len = CMSG_LEN(sizeof(int));
  memcpy(CMSG_DATA(c), &given, sizeof given);
  sendmsg(ends[0], &message, 0);
  close(file);
  recvmsg(ends[1], &message, 0);
  int received;
  memcpy(&received, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof received);
  if (received != file) puts("another number");
  write(received, "received", 8);
}

static void pipes(void) {
  int one[2], two[2], out = create("out");
  pipe(one), pipe(two);
  struct iovec parts[2] = {{buffer, 300}, {buffer + 4096, 200}};
  vmsplice(one[1], parts, 2, 0);
  tee(one[0], two[1], 400, 0);
  splice(one[0], NULL, out, NULL, 500, 0);
  splice(two[0], NULL, out, NULL, 400, 0);
}

/* vmsplice out of a pipe reads. */
static void drained(void) {
  int ends[2];
  pipe(ends);
  write(ends[1], buffer, 500);
  struct iovec part = {buffer, 150};
  printf("%zd\n", vmsplice(ends[0], &part, 1, 0));
}

static void wait_for(struct aiocb *request) {
  const struct aiocb *list[1] = {request};
  while (aio_error(request) == EINPROGRESS) aio_suspend(list, 1, NULL);
}

static void asynchronous(const char *data) {
  int in = open(data, O_RDONLY), out = create("out");
  struct aiocb one = {.aio_fildes = in, .aio_buf = buffer, .aio_nbytes = 5000, .aio_offset = 10};
  struct aiocb two = {.aio_fildes = out, .aio_buf = buffer + 50000, .aio_nbytes = 700, .aio_offset = 100};
  aio_read(&one), wait_for(&one);
  printf("%zd\n", aio_return(&one));
  aio_write(&two), wait_for(&two);
  printf("%zd\n", aio_return(&two));
  one.aio_lio_opcode = LIO_READ, two.aio_lio_opcode = LIO_WRITE;
  one.aio_offset = 399990;
  struct aiocb *both[3] = {&one, NULL, &two};
  printf("%d\n", lio_listio(LIO_WAIT, both, 3, NULL));
  printf("%zd %zd\n", aio_return(&one), aio_return(&two));
  printf("%d\n", lio_listio(77, both, 3, NULL));
  aio_fsync(O_SYNC, &two), wait_for(&two);
  printf("%zd\n", aio_return(&two));
  /* The descriptor's number is another file's when the result is taken. */
  aio_write(&two), wait_for(&two);
  close(out);
  int other = create("other");
  if (other != out) puts("another number");
  printf("%zd\n", aio_return(&two));
  two.aio_fildes = 999;
  aio_write(&two), wait_for(&two);
  printf("%zd\n", aio_return(&two));
}

static void by_number(const char *data) {
  long in = syscall(SYS_openat, AT_FDCWD, data, O_RDONLY),
       out = syscall(SYS_openat, AT_FDCWD, "out", O_RDWR | O_CREAT, 0600);
  struct iovec parts[2] = {{buffer, 100}, {buffer + 100, 200}};
  syscall(SYS_read, in, buffer, 5000L);
  syscall(SYS_pread64, in, buffer, 50L, 1000L);
  syscall(SYS_readv, in, parts, 2L);
  syscall(SYS_preadv2, in, parts, 2L, -1L, 0L, 0L);
  syscall(SYS_write, out, buffer, 1234L);
  syscall(SYS_pwrite64, out, buffer, 10L, 5000L);
  syscall(SYS_writev, out, parts, 2L);
  long from = 5;
  printf("%ld\n", syscall(SYS_copy_file_range, in, &from, out, NULL, 999L, 0L));
  printf("%ld\n", syscall(SYS_sendfile, out, in, NULL, 55L));
  printf("%ld %d\n", syscall(SYS_read, 999L, buffer, 1L), errno);
  printf("%ld %d\n", syscall(SYS_openat, AT_FDCWD, "nowhere/file", O_RDONLY), errno);
  printf("%ld %d\n", syscall(SYS_openat, AT_FDCWD, 8L, O_RDONLY), errno);
  printf("%ld %d\n", syscall(SYS_writev, out, 8L, 2L), errno);
  printf("%ld %d\n", syscall(99999L), errno);
  /* All six arguments arrive. */
  char *map = (char *)syscall(SYS_mmap, NULL, 8192L, PROT_READ, MAP_PRIVATE, in, 4096L);
  char same[100];
  pread(in, same, 100, 4096);
  printf("map %d\n", memcmp(map, same, 100));
  printf("pid %d\n", syscall(SYS_getpid) == getpid());
  long child = syscall(SYS_fork);
  if (child == 0) _exit(0);
  long copy = syscall(SYS_dup, out);
  syscall(SYS_write, copy, "copy", 4L);
  syscall(SYS_close, copy);
}

static void clones(const char *data) {
  int in = open(data, O_RDONLY), out = create("out");
  int ret = ioctl(out, FICLONE, in);
  if (ret < 0) {
    while (copy_file_range(in, NULL, out, NULL, 1 << 20, 0) > 0) continue;
  }
  struct file_clone_range range = {.src_fd = in, .src_length = 4096};
  ioctl(out, FICLONERANGE, &range);
  ioctl(out, FICLONERANGE, (void *)8);
  int available;
  printf("%d %d\n", ioctl(in, FIONREAD, &available), available);
  printf("%d\n", ioctl(999, FICLONE, in));
}

static void shared(const char *name) {
  int fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
  write(fd, buffer, 8192);
  char *map = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  map[0] = 1;
  close(fd);
  shm_unlink(name);
  printf("%d\n", shm_open(name, O_RDONLY, 0));
}

static void queues(void) {
  int counter = eventfd(0, 0);
  eventfd_t value;
  printf("%d\n", eventfd_write(counter, 5));
  printf("%d %d\n", eventfd_read(counter, &value), (int)value);
  char name[64];
  snprintf(name, sizeof name, "/tailrace-moves-%d", getpid());
  struct mq_attr attributes = {.mq_maxmsg = 4, .mq_msgsize = 100};
  mqd_t queue = mq_open(name, O_RDWR | O_CREAT, 0600, &attributes);
  if (queue < 0) return;
  mq_send(queue, buffer, 33, 0);
  mq_receive(queue, buffer, 100, NULL);
  mq_close(queue);
  mq_unlink(name);
}

/* From one process to another, that opens it itself. */
static void mailed(const char *name) {
  struct mq_attr attributes = {.mq_maxmsg = 4, .mq_msgsize = 100};
  mqd_t queue = mq_open(name, O_WRONLY | O_CREAT, 0600, &attributes);
  if (queue < 0) exit(77);
  if (fork() == 0) {
    struct timespec late = {.tv_sec = 1L << 40};
    mqd_t mine = mq_open(name, O_RDONLY);
    mq_unlink(name);
    printf("%d\n", (int)mq_receive(mine, buffer, 100, NULL));
    printf("%d\n", (int)mq_timedreceive(mine, buffer, 100, NULL, &late));
    printf("%d\n", (int)mq_receive(mine, buffer, 1, NULL));
    fflush(stdout);
    _exit(0);
  }
  struct timespec late = {.tv_sec = 1L << 40};
  mq_send(queue, buffer, 33, 0);
  mq_timedsend(queue, buffer, 44, 0, &late);
  wait(NULL);
}

int main(int argc, char **argv) {
  const char *what = argv[1], *data = argv[argc - 1];
  if (!strcmp(what, "sockets")) sockets();
  if (!strcmp(what, "passed")) passed();
  if (!strcmp(what, "pipes")) pipes();
  if (!strcmp(what, "drained")) drained();
  if (!strcmp(what, "asynchronous")) asynchronous(data);
  if (!strcmp(what, "by_number")) by_number(data);
  if (!strcmp(what, "clones")) clones(data);
  if (!strcmp(what, "shared")) shared(data);
  if (!strcmp(what, "queues")) queues();
  if (!strcmp(what, "mailed")) mailed(data);
  return 0;
}
