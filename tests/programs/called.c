// Calls in a signal handler on a stack of its own, which is small, and in a thread with the smallest stack; each line that
// writes is marked. What lies above both stacks can't be read.
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int fd;

static char *fenced_stack(size_t bytes) {
  char *pages = mmap(0, bytes + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED || mprotect(pages + bytes, 4096, PROT_NONE)) exit(2);
  return pages;
}

static void handle(int number) {
  for (int i = 0; i < 20; ++i) {
    if (write(fd, "handler", 7) != 7) _exit(number);  // line: handler
  }
}

static void *work(void *unused) {
  for (int i = 0; i < 20; ++i) {
    if (write(fd, "thread", 6) != 6) _exit(3);  // line: thread
  }
  return unused;
}

int main(int count, char **argv) {
  fd = open(argv[count - 1], O_CREAT | O_WRONLY | O_TRUNC, 0600);
  stack_t stack = {.ss_sp = fenced_stack(8192), .ss_size = 8192};
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = handle;
  action.sa_flags = SA_ONSTACK;
  if (sigaltstack(&stack, 0) || sigaction(SIGUSR1, &action, 0)) return 4;
  raise(SIGUSR1);
  pthread_attr_t how;
  pthread_t thread;
  pthread_attr_init(&how);
  pthread_attr_setstack(&how, fenced_stack(16384), 16384);
  if (pthread_create(&thread, &how, work, 0)) return 5;
  pthread_join(thread, 0);
  return 0;
}
