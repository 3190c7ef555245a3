/* causes WAY: a process whose bytes are easily missed, or called by a false name. In the working directory.
 *
 *   write, sendfile, fwrite, raw   a child that SIGKILL ends inside this call, into a socket that is full; prints PID TAKEN,
 *                                  where TAKEN is what the parent read of it before and after
 *   core                           a child that aborts with memory of 8 MiB, and may leave a core file
 *   aio_error, aio_suspend, aio_listio, aio_reuse, aio_clear, aio_exit
 *                                  8 requests of kBytes each to the file `data`, which are taken so, or by nobody: the
 *                                  memory is another request's then, and may have been cleared before
 */
#define _GNU_SOURCE
#include <aio.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kBytes = 10000, kRequests = 8, kMuch = 8 << 20 };

static char g_block[kMuch];

static void move_much(const char *how, int to) {
  if (!strcmp(how, "write")) (void)!write(to, g_block, sizeof g_block);
  if (!strcmp(how, "raw")) (void)!syscall(SYS_write, to, g_block, sizeof g_block);
  if (!strcmp(how, "fwrite")) fwrite(g_block, 1, sizeof g_block, fdopen(to, "w"));
  if (!strcmp(how, "sendfile")) {
    int from = open("data", O_RDWR | O_CREAT, 0666);
    if (ftruncate(from, sizeof g_block) == 0) sendfile(to, from, NULL, sizeof g_block);
  }
}

static int killed_in_call(const char *how) {
  int ends[2], status;
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) return 1;
  pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    move_much(how, ends[1]);
    _exit(0);
  }
  close(ends[1]);
  long taken = read(ends[0], g_block, 1 << 16); /* it is in the call, which can't end */
  kill(child, SIGKILL);
  for (ssize_t n; (n = read(ends[0], g_block, sizeof g_block)) > 0;) taken += n;
  waitpid(child, &status, 0);
  printf("%d %ld\n", child, taken);
  return !WIFSIGNALED(status);
}

static int dump_core(void) {
  struct rlimit all = {RLIM_INFINITY, RLIM_INFINITY};
  if (setrlimit(RLIMIT_CORE, &all) != 0) return 1;
  memset(g_block, 1, sizeof g_block);
  int status;
  pid_t child = fork();
  if (child == 0) abort();
  waitpid(child, &status, 0);
  printf("%d %d\n", child, WCOREDUMP(status) != 0);
  return 0;
}

static struct aiocb g_requests[kRequests];

static struct aiocb *prepared(int fd, int place, int number) {
  struct aiocb *request = &g_requests[place];
  request->aio_fildes = fd;
  request->aio_buf = g_block;
  request->aio_nbytes = kBytes;
  request->aio_offset = (off_t)number * kBytes;
  request->aio_lio_opcode = LIO_WRITE;
  return request;
}

static int is_written(int fd, int requests) {
  struct stat now;
  return fstat(fd, &now) == 0 && now.st_size == (off_t)requests * kBytes;
}

/* As seen from the file, so that nothing asks for a result. */
static void wait_for_file(int fd, int requests) {
  while (!is_written(fd, requests)) usleep(1000);
  usleep(20000);
}

static int asynchronous(const char *how) {
  int fd = open("data", O_RDWR | O_CREAT | O_TRUNC, 0666);
  struct aiocb *list[kRequests];
  const int is_cleared = !strcmp(how, "clear"), is_one = is_cleared || !strcmp(how, "reuse");
  for (int i = 0; i < kRequests; ++i) list[i] = prepared(fd, is_one ? 0 : i, i);
  if (!strcmp(how, "listio")) return lio_listio(LIO_WAIT, list, kRequests, NULL);
  for (int i = 0; i < kRequests; ++i) {
    if (is_cleared) memset(&g_requests[0], 0, sizeof g_requests[0]);
    struct aiocb *request = is_one ? prepared(fd, 0, i) : list[i];
    if (aio_write(request) != 0) return 1;
    if (!strcmp(how, "error")) {
      while (aio_error(request) == EINPROGRESS) usleep(100);
    }
    if (!strcmp(how, "suspend")) {
      while (aio_suspend((const struct aiocb *const *)&request, 1, NULL) != 0) continue;
    }
    if (is_one) wait_for_file(fd, i + 1);
  }
  wait_for_file(fd, kRequests);
  return 0;
}

int main(int argc, char **argv) {
  (void)argc;
  const char *way = argv[1];
  if (!strncmp(way, "aio_", 4)) return asynchronous(way + 4);
  return strcmp(way, "core") == 0 ? dump_core() : killed_in_call(way);
}
