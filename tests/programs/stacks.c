/* I/O on stacks as small as they may be: threads with the least stack, and a handler on an alternate one. stacks WHAT.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void *does_io(void *unused) {
  struct stat s;
  int fd = open("small", O_WRONLY | O_CREAT | O_APPEND, 0600);
  write(fd, "0123456789", 10);
  close(fd);
  rename("small", "renamed");
  rename("renamed", "small");
  stat("small", &s);
  access("missing", R_OK);
  unlink("missing");
  chdir(".");
  return unused;
}

/* Enough to fill a segment, so that it is sealed on this stack. */
static void *seals(void *unused) {
  int fd = open("many", O_WRONLY | O_CREAT | O_APPEND, 0600);
  for (int i = 0; i < 10000; ++i) write(fd, "0123456789", 10);
  close(fd);
  return unused;
}

static void handler(int signal) {
  (void)signal;
  does_io(NULL);
}

int main(int argc, char **argv) {
  const char *what = argv[argc - 1];
  if (!strcmp(what, "handler")) {
    static char stack[8192]; /* SIGSTKSZ, as it was for decades */
    stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
    sigaltstack(&alternate, NULL);
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
    sigaction(SIGUSR1, &action, NULL);
    for (int i = 0; i < 3; ++i) raise(SIGUSR1);
    return 0;
  }
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, PTHREAD_STACK_MIN);
  pthread_t thread;
  for (int i = 0; i < 5; ++i) {
    if (pthread_create(&thread, &attributes, strcmp(what, "seals") ? does_io : seals, NULL)) return 2;
    pthread_join(thread, NULL);
  }
  return 0;
}
