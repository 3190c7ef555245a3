// Allocates and does I/O in threads, in forked children meanwhile, in a program that it starts, and at the end.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kThreads = 4, kRounds = 3000, kForks = 40 };

static void write_file(const char *name, long n) {
  FILE *file = fopen(name, "w");
  if (!file || fprintf(file, "%ld\n", n) < 0 || fclose(file)) abort();
}

static void *work(void *number) {
  long sum = 0;
  char name[32];
  for (int i = 0; i < kRounds; ++i) {
    size_t n = 16 + (size_t)i * 37 % 5000;
    char *p = malloc(n);
    memset(p, i & 0x7F, n);
    p = realloc(p, 2 * n);
    sum += p[n - 1];
    free(p);
  }
  snprintf(name, sizeof name, "thread%ld", (long)number);
  write_file(name, sum);
  return NULL;
}

static void at_exit(void) {
  free(malloc(100));
  write_file("at_exit", 1);
}

int main(void) {
  pthread_t threads[kThreads];
  int failed = 0;
  atexit(at_exit);
  for (long i = 0; i < kThreads; ++i) pthread_create(&threads[i], NULL, work, (void *)i);
  for (int i = 0; i < kForks; ++i) {
    int status;
    pid_t child = fork();
    if (child == 0) {
      char name[32];
      snprintf(name, sizeof name, "child%d", i);
      free(malloc(1000));
      write_file(name, i);
      _exit(0);
    }
    failed += child < 0 || waitpid(child, &status, 0) != child || status;
  }
  for (int i = 0; i < kThreads; ++i) pthread_join(threads[i], NULL);
  failed += system("echo started; exit 0") != 0;
  printf("%d failed\n", failed);
  return 7;
}
