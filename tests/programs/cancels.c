// Cancellation: a thread is cancelled while it waits in each of these calls, or with the request pending when it comes
// there. Prints how each went; afterwards the process still does I/O. `system`: a command whose waiter was cancelled is
// ended, and SIGINT is what it was.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kCalls = 16 };
static int pipes[2], sockets[2], which, cleaned;
static volatile int entered;

static void clean(void *unused) { ++cleaned; }

static void *cancelled(void *is_pending) {
  char buffer[64];
  struct iovec vector = {buffer, 8};
  struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1};
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
  int file = open("given", O_RDWR);
  FILE *stream = fopen("given", "r"), *waiting = fdopen(dup(pipes[0]), "r");
  if (is_pending) pthread_cancel(pthread_self());
  pthread_cleanup_push(clean, NULL);
  pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
  entered = 1;
  switch (which) {
    case 0: read(pipes[0], buffer, 8); break;
    case 1: readv(pipes[0], &vector, 1); break;
    case 2: recv(sockets[0], buffer, 8, 0); break;
    case 3: recvmsg(sockets[0], &message, 0); break;
    case 4: open("fifo", O_RDONLY); break;
    case 5: fgetc(waiting); break;
    case 6: fopen("fifo", "r"); break;
    case 7: splice(pipes[0], NULL, sockets[0], NULL, 10, 0); break;
    case 8: close(file), pause(); break;
    case 9: fclose(stream), pause(); break;
    case 10: pread(file, buffer, 1, 0), pause(); break;
    case 11: fsync(file), pause(); break;
    case 12: fread(buffer, 1, 10, stream), pause(); break;
    case 13: creat("made", 0600), pause(); break;
    case 14: pclose(popen("true", "r")); break;
    case 15:
      pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
      for (;;) pwrite(9999, buffer, 1, 0);
  }
  pthread_cleanup_pop(0);
  return NULL;
}

static void *shell(void *unused) { return system("echo $$ > shell; exec sleep 20"), NULL; }

static int test_system(void) {
  pthread_t thread;
  struct stat s;
  pthread_create(&thread, NULL, shell, NULL);
  while (stat("shell", &s) < 0 || s.st_size == 0) usleep(1000);
  pthread_cancel(thread);
  pthread_join(thread, NULL);
  int pid = 0;
  FILE *f = fopen("shell", "r");
  fscanf(f, "%d", &pid);
  fclose(f);
  unlink("shell");
  struct sigaction now;
  sigaction(SIGINT, NULL, &now);
  printf("running %d, ignored %d\n", kill(pid, 0) == 0, now.sa_handler == SIG_IGN);
  kill(pid, SIGKILL);
  return 0;
}

int main(int argc, char **argv) {
  signal(SIGINT, SIG_DFL);
  if (argc > 1) return test_system();
  mkfifo("fifo", 0600);
  pipe(pipes);
  socketpair(AF_UNIX, SOCK_STREAM, 0, sockets);
  for (int pending = 0; pending < 2; ++pending) {
    for (which = 0; which < kCalls; ++which) {
      pthread_t thread;
      void *result;
      entered = cleaned = 0;
      pthread_create(&thread, NULL, cancelled, pending ? &pending : NULL);
      if (!pending) {
        while (!entered) usleep(500);
        usleep(20000);
        pthread_cancel(thread);
      }
      pthread_join(thread, &result);
      printf("%d %d %s %d\n", pending, which, result == PTHREAD_CANCELED ? "cancelled" : "returned", cleaned);
    }
  }
  unlink("fifo");
  int out = open("after", O_CREAT | O_WRONLY, 0600);
  for (int i = 0; i < 10000; ++i) write(out, "0123456789", 10);
  return 0;
}
