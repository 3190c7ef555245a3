// Crowds: argv[2] of them, each of which writes ten bytes twice. `together` threads that all live at once, `one_by_one`
// threads that follow each other, `children` that live at once and end in different ways, `images`, each of which begins
// threads and is replaced by the next while they write their first bytes.
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int out;
static pthread_barrier_t all_there;

static void put(void) { write(out, "abcdefghij", 10); }

static void *member(void *is_together) {
  put();
  if (is_together) pthread_barrier_wait(&all_there);
  put();
  return NULL;
}

static int threads(int n, int are_together) {
  pthread_attr_t small;
  pthread_t *all = calloc((size_t)n, sizeof *all);
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, 65536);
  pthread_barrier_init(&all_there, NULL, (unsigned)n);
  for (int i = 0; i < n; ++i) {
    if (pthread_create(&all[i], &small, member, are_together ? &all_there : NULL)) return printf("failed at %d\n", i);
    if (!are_together) pthread_join(all[i], NULL);
  }
  for (int i = 0; are_together && i < n; ++i) pthread_join(all[i], NULL);
  return 0;
}

static int children(int n) {
  int good = 0, status;
  for (int i = 0; i < n; ++i) {
    pid_t child = fork();
    if (child < 0) return printf("failed at %d\n", i);
    if (child) continue;
    put();
    usleep(100000);
    put();
    if (i % 4 == 0) _exit(0);
    if (i % 4 == 1) exit(0);
    if (i % 4 == 2) execl("/bin/true", "true", (char *)NULL);
    return 0;
  }
  while (wait(&status) > 0) good += status == 0;
  printf("%d\n", good);
  return 0;
}

static void *put_and_stay(void *unused) {
  put();
  pause();
  return unused;
}

static void *begin_threads(void *unused) {
  pthread_t thread;
  for (int i = 0; i < 100 && !pthread_create(&thread, NULL, put_and_stay, NULL); ++i) {
  }
  return unused;
}

static int images(char **argv, int n) {
  char left[16];
  pthread_t thread;
  if (n == 0) return puts("last") < 0;
  pthread_create(&thread, NULL, begin_threads, NULL);
  usleep((unsigned)(n * 7 % 500));
  snprintf(left, sizeof left, "%d", n - 1);
  execl(argv[0], argv[0], argv[1], left, (char *)NULL);
  return 1;
}

int main(int argc, char **argv) {
  int n = atoi(argv[2]);
  out = open("out", O_CREAT | O_WRONLY | O_APPEND, 0600);
  if (!strcmp(argv[1], "children")) return children(n);
  if (!strcmp(argv[1], "images")) return images(argv, n);
  return threads(n, !strcmp(argv[1], "together"));
}
