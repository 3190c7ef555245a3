/* The kernel's asynchronous requests: libaio WAY, with the functions of the library
 * ("linked"), or by number ("number"): 16 writes, 16 reads of which the last ends early, a vector, bad requests. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <libaio.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { N = 16, SIZE = 4096 };

static long submit_number(io_context_t c, long n, struct iocb **list) { return syscall(SYS_io_submit, c, n, list); }
static long take_number(io_context_t c, long least, long n, struct io_event *out, struct timespec *t) {
  return syscall(SYS_io_getevents, c, least, n, out, t);
}

int main(int argc, char **argv) {
  int (*submit)(io_context_t, long, struct iocb **) = io_submit;
  int (*take)(io_context_t, long, long, struct io_event *, struct timespec *) = io_getevents;
  if (!strcmp(argv[1], "number")) submit = (void *)submit_number, take = (void *)take_number;
  io_context_t context = 0;
  struct io_event results[N];
  struct iocb *list[N];
  char *buffer = malloc(N * SIZE);
  memset(buffer, 'a', N * SIZE);
  printf("%d\n", io_setup(N, &context));
  int fd = open("data", O_RDWR | O_CREAT | O_TRUNC, 0600), taken = 0;
  for (int pass = 0; pass < 2; pass++) {
    for (int i = 0; i < N; i++) {
      list[i] = malloc(sizeof(struct iocb));
      (pass ? io_prep_pread : io_prep_pwrite)(list[i], fd, buffer + i * SIZE, SIZE, i * SIZE + pass * 100);
    }
    printf("%d\n", submit(context, N, list));
    /* The kernel has its own copy. */
    for (int i = 0; i < N; i++) memset(list[i], 0xFF, sizeof(struct iocb)), free(list[i]);
    for (taken = 0; taken < N;) taken += take(context, 1, N, results, NULL);
  }
  struct iovec parts[2] = {{buffer, 10}, {buffer, 20}};
  struct iocb vector, *one = &vector;
  io_prep_pwritev(&vector, fd, parts, 2, 0);
  printf("%d\n", submit(context, 1, &one));
  printf("%d\n", take(context, 1, 1, results, NULL));
  io_prep_pread(&vector, 77, buffer, 1, 0);
  printf("%d\n", submit(context, 1, &one) < 0);
  printf("%d\n", submit(context, 1, (struct iocb **)8) < 0);
  struct iocb *bad = (struct iocb *)8;
  printf("%d\n", submit(context, 1, &bad) < 0);
  return io_destroy(context);
}
