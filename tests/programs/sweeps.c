/* Threads that work while others close every descriptor that they find: sweeps THREADS CALLS, or sweeps own CALLS.
   With threads: their file has a number above those that are closed. own: files are opened, used and closed under a lock that
   the sweep takes too, so that no descriptor of the program's is ever closed by it. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile int stop;
static long calls;
static int file;
static pthread_barrier_t together;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void *write_much(void *number) {
  char x = 'x';
  pthread_barrier_wait(&together);
  for (long i = 0; i < calls; ++i) {
    if (pwrite(file, &x, 1, (long)number * calls + i) != 1) exit(3);
  }
  pthread_barrier_wait(&together);
  return NULL;
}

static void *close_all(void *last) {
  while (!stop) {
    for (int fd = 3; fd < (long)last; ++fd) close(fd);
  }
  return NULL;
}

static void *close_under_lock(void *last) {
  while (!stop) {
    pthread_mutex_lock(&mutex);
    for (int fd = 3; fd < (long)last; ++fd) close(fd);
    pthread_mutex_unlock(&mutex);
    usleep(200);
  }
  return NULL;
}

static void *use_files(void *number) {
  for (long i = 0; i < calls; ++i) {
    char name[32], text[64] = "", back[64];
    snprintf(name, sizeof name, "of%ld.%ld", (long)number, i % 20);
    snprintf(text, sizeof text, "%ld %ld", (long)number, i);
    pthread_mutex_lock(&mutex);
    int fd = open(name, O_CREAT | O_RDWR | O_TRUNC, 0600);
    struct stat found;
    if (fd < 0 || write(fd, text, sizeof text) != sizeof text) exit(4);
    if (fstat(fd, &found) || found.st_size != sizeof text) exit(5);
    if (pread(fd, back, sizeof back, 0) != sizeof back || memcmp(text, back, sizeof text)) exit(6);
    if (close(fd)) exit(7);
    pthread_mutex_unlock(&mutex);
    if (i % 64 == 0) system(":");
  }
  return NULL;
}

int main(int argc, char **argv) {
  pthread_t threads[512], sweeping[2];
  int own = !strcmp(argv[1], "own"), count = own ? 4 : atoi(argv[1]);
  calls = atol(argv[2]);
  file = fcntl(open("file", O_CREAT | O_RDWR | O_TRUNC, 0600), F_DUPFD, 1000);
  pthread_barrier_init(&together, NULL, count);
  for (int i = 0; i < 2; ++i) pthread_create(&sweeping[i], NULL, own ? close_under_lock : close_all, (void *)12);
  for (long i = 0; i < count; ++i) pthread_create(&threads[i], NULL, own ? use_files : write_much, (void *)i);
  for (int i = 0; i < count; ++i) pthread_join(threads[i], NULL);
  stop = 1;
  for (int i = 0; i < 2; ++i) pthread_join(sweeping[i], NULL);
  puts("done");
  return 0;
}
