/* io_uring by liburing: uring WAY. Results are taken by the library's functions and, in parts, by what is inlined here.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <liburing.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { N = 16, SIZE = 4096 };

static struct io_uring ring;
static char buffer[N][SIZE];

/* The request, to be recognized by its number. */
static struct io_uring_sqe *numbered(struct io_uring_sqe *sqe, unsigned long number) {
  sqe->user_data = number;
  return sqe;
}
static struct io_uring_sqe *next(void) { return io_uring_get_sqe(&ring); }

static int take(void) {
  struct io_uring_cqe *cqe;
  io_uring_wait_cqe(&ring, &cqe);
  int result = cqe->res;
  io_uring_cqe_seen(&ring, cqe);
  return result;
}

/* Nothing of these is exported: the results are gone when the library is called again. */
static int spin(void) {
  struct io_uring_cqe *cqe = NULL;
  unsigned head;
  while (!cqe) io_uring_for_each_cqe(&ring, head, cqe) break;
  int result = cqe->res;
  io_uring_cqe_seen(&ring, cqe);
  return result;
}

static void many(int fd, int (*result)(void)) {
  int sum = 0;
  for (int i = 0; i < N; i++) {
    struct io_uring_sqe *sqe = next();
    io_uring_prep_write(sqe, fd, buffer[i], SIZE, i * SIZE);
    numbered(sqe, i);
  }
  printf("%d\n", io_uring_submit(&ring));
  for (int i = 0; i < N; i++) sum += result();
  for (int i = 0; i < N; i++) {
    struct io_uring_sqe *sqe = next();
    io_uring_prep_read(sqe, fd, buffer[i], SIZE, i * SIZE + 100);
    numbered(sqe, i);
    if (i % 4 == 3) io_uring_submit_and_wait(&ring, 1);
  }
  for (int i = 0; i < N; i++) sum += result();
  printf("%d\n", sum);
}

int main(int argc, char **argv) {
  const char *way = argv[1];
  if (!strcmp(way, "raw")) {
    struct io_uring_params p;
    memset(&p, 0, sizeof p);
    return syscall(SYS_io_uring_setup, 8, &p) < 0;
  }
  int made = io_uring_queue_init(N, &ring, 0);
  if (made < 0) return 77;
  memset(buffer, 'a', sizeof buffer);
  int fd = open("data", O_RDWR | O_CREAT | O_TRUNC, 0600);
  if (!strcmp(way, "taken")) many(fd, take);
  if (!strcmp(way, "inline")) many(fd, spin);
  if (!strcmp(way, "listed")) {
    /* By place in a list, whose descriptor is another file's by then. */
    int files[2] = {fd, -1}, other = open("other", O_RDWR | O_CREAT | O_TRUNC, 0600);
    printf("%d\n", io_uring_register_files(&ring, files, 2));
    printf("%d\n", io_uring_register_files_update(&ring, 1, &other, 1));
    dup2(other, fd);
    for (int i = 0; i < 2; i++) {
      struct io_uring_sqe *sqe = next();
      io_uring_prep_write(sqe, i, buffer[0], 1000 * (i + 1), 0);
      sqe->flags |= IOSQE_FIXED_FILE;
      io_uring_submit_and_wait(&ring, 1);
      printf("%d\n", take());
    }
    printf("%d\n", io_uring_unregister_files(&ring));
  }
  if (!strcmp(way, "mixed")) {
    int ends[2], out = open("out", O_WRONLY | O_CREAT | O_TRUNC, 0600);
    pipe(ends);
    struct iovec parts[2] = {{buffer[0], 10}, {buffer[1], 20}};
    io_uring_prep_writev(numbered(next(), 0), fd, parts, 2, 0);
    printf("%d\n", io_uring_submit_and_wait(&ring, 1));
    printf("%d\n", take());
    /* At the position, which is behind what was written here. */
    write(fd, buffer[0], 50);
    io_uring_prep_write(numbered(next(), 0), fd, buffer[0], 70, -1);
    io_uring_submit(&ring);
    printf("%d\n", take());
    io_uring_prep_splice(numbered(next(), 0), fd, 20, ends[1], -1, 40, 0);
    io_uring_submit(&ring);
    printf("%d\n", take());
    io_uring_prep_splice(numbered(next(), 0), ends[0], -1, out, -1, 40, 0);
    io_uring_submit(&ring);
    printf("%d\n", take());
    io_uring_prep_read(numbered(next(), 0), 77, buffer[0], 1, 0);
    io_uring_submit(&ring);
    printf("%d\n", take());
    /* Its number is the next one's. */
    io_uring_prep_close(numbered(next(), 0), fd);
    io_uring_submit(&ring);
    printf("%d\n", take());
    fd = open("next", O_WRONLY | O_CREAT | O_TRUNC, 0600);
    write(fd, buffer[0], 33);
    io_uring_prep_write(next(), fd, buffer[0], 44, 33);
#ifdef IOSQE_CQE_SKIP_SUCCESS
    ring.sq.sqes[(ring.sq.sqe_tail - 1) & *ring.sq.kring_mask].flags |= IOSQE_CQE_SKIP_SUCCESS;
#endif
    io_uring_submit(&ring);
  }
  if (strcmp(way, "inline")) io_uring_queue_exit(&ring);
  return 0;
}
