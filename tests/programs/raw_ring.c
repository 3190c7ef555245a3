// An io_uring made of system calls alone (io_uring(7)): writes 10 bytes to the file that is named by write(2), then 700 by a
// request, and reads 300 by another. Ends with 77 where the kernel makes no ring, after any other surprise with its line.
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/io_uring.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "check.h"

static char g_bytes[1000];

struct ring {
  int fd;
  struct io_uring_params parameters;
  char *submissions, *completions;
  struct io_uring_sqe *requests;
};

static int request(struct ring *ring, int operation, int file, unsigned bytes) {
  unsigned *tail = (unsigned *)(ring->submissions + ring->parameters.sq_off.tail);
  unsigned *places = (unsigned *)(ring->submissions + ring->parameters.sq_off.array);
  unsigned at = *tail & (ring->parameters.sq_entries - 1);
  memset(&ring->requests[at], 0, sizeof ring->requests[at]);
  ring->requests[at].opcode = (unsigned char)operation;
  ring->requests[at].fd = file;
  ring->requests[at].addr = (unsigned long)g_bytes;
  ring->requests[at].len = bytes;
  places[at] = at;
  __atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
  CHECK(syscall(SYS_io_uring_enter, ring->fd, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) == 1);
  unsigned *head = (unsigned *)(ring->completions + ring->parameters.cq_off.head);
  const struct io_uring_cqe *results = (struct io_uring_cqe *)(ring->completions + ring->parameters.cq_off.cqes);
  int result = results[*head & (ring->parameters.cq_entries - 1)].res;
  __atomic_store_n(head, *head + 1, __ATOMIC_RELEASE);
  return result;
}

int main(int count, char **arguments) {
  CHECK(count > 1);
  struct ring ring = {0};
  struct io_uring_params *p = &ring.parameters;
  ring.fd = (int)syscall(SYS_io_uring_setup, 4, p);
  if (ring.fd < 0) _exit(77);
  const int protection = PROT_READ | PROT_WRITE, flags = MAP_SHARED | MAP_POPULATE;
  ring.submissions = mmap(NULL, p->sq_off.array + p->sq_entries * sizeof(unsigned), protection, flags, ring.fd, 0);
  ring.completions = mmap(NULL, p->cq_off.cqes + p->cq_entries * sizeof(struct io_uring_cqe), protection, flags,
                          ring.fd, IORING_OFF_CQ_RING);
  ring.requests = mmap(NULL, p->sq_entries * sizeof(struct io_uring_sqe), protection, flags, ring.fd, IORING_OFF_SQES);
  CHECK(ring.submissions != MAP_FAILED && ring.completions != MAP_FAILED && (void *)ring.requests != MAP_FAILED);
  int file = open(arguments[1], O_RDWR | O_CREAT | O_TRUNC, 0600);
  CHECK(file >= 0 && write(file, g_bytes, 10) == 10);
  CHECK(request(&ring, IORING_OP_WRITE, file, 700) == 700 && request(&ring, IORING_OP_READ, file, 300) == 300);
  return 0;
}
