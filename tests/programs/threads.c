/* Threads and I/O: threads WHAT. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kThreads = 8 };
static FILE *g_shared;
static volatile int g_stop, g_turns;
static pthread_key_t g_keys[3];

static void *opens(void *number) {
  char name[32], line[64];
  for (int i = 0; i < 200; ++i) {
    sprintf(name, "file%ld.%d", (long)number, i % 5);
    FILE *f = fopen(name, "w");
    fprintf(f, "%d\n", i);
    fclose(f);
    f = fopen(name, "r");
    fgets(line, sizeof line, f);
    fclose(f);
  }
  return NULL;
}

static void *prints(void *unused) {
  for (int i = 0; i < 5000; ++i) fprintf(g_shared, "%08d\n", i);
  return unused;
}

static void *writes_until(void *number) {
  char name[32];
  sprintf(name, "busy%ld", (long)number);
  while (!g_stop) {
    int fd = open(name, O_WRONLY | O_CREAT | O_APPEND, 0600);
    write(fd, "0123456789", 10);
    close(fd);
    FILE *f = fopen(name, "r");
    getc(f);
    fclose(f);
  }
  return NULL;
}

static void append(const char *name, const char *text) {
  int fd = open(name, O_WRONLY | O_CREAT | O_APPEND, 0600);
  write(fd, text, strlen(text));
  close(fd);
}

static void *in_turn(void *unused) {
  append("turns", "turn\n");
  __atomic_add_fetch(&g_turns, 1, __ATOMIC_RELEASE);
  return unused;
}

static void destructor(void *key) { append("destructors", key); }

static void *with_keys(void *unused) {
  for (int i = 0; i < 3; ++i) pthread_setspecific(g_keys[i], "destroyed\n");
  append("destructors", "body\n");
  pthread_exit(unused);
}

/* Each begins when the one before it is likely over, but nothing orders them: no thread is joined. The last one's write has
 * returned when the process ends. */
static void one_after_the_other(void) {
  enum { kCount = 30 };
  pthread_attr_t detached;
  pthread_attr_init(&detached);
  pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
  struct stat s = {0};
  for (int i = 0; i < kCount; ++i) {
    pthread_t thread;
    pthread_create(&thread, &detached, in_turn, NULL);
    while (stat("turns", &s) || s.st_size < (i + 1) * (long)strlen("turn\n")) usleep(500);
    usleep(500);
  }
  while (g_turns < kCount) usleep(500);
}

/* Looks the API up, as a program does that can also run untraced. */
static void *in_context(void *task) {
  unsigned (*enter)(const char *) = (unsigned (*)(const char *))dlsym(RTLD_DEFAULT, "tailrace_context_enter");
  if (task && enter) enter(task);
  append(task ? task + strlen("task=") : "inherited", "x");
  pthread_t inner;
  if (task) pthread_create(&inner, NULL, in_context, NULL), pthread_join(inner, NULL);
  return NULL;
}

static void run(void *(*function)(void *), int count) {
  pthread_t threads[kThreads];
  for (long i = 0; i < count; ++i) pthread_create(threads + i, NULL, function, (void *)i);
  for (long i = 0; i < count; ++i) pthread_join(threads[i], NULL);
}

static int fork_among_threads(void) {
  pthread_t threads[4];
  for (long i = 0; i < 4; ++i) pthread_create(threads + i, NULL, writes_until, (void *)i);
  int failed = 0;
  for (int i = 0; i < 100; ++i) {
    pid_t pid = fork();
    if (pid == 0) {
      append("children", "child\n");
      FILE *f = fopen("children", "r");
      int c = getc(f);
      fclose(f);
      _exit(c == 'c' ? 0 : 1);
    }
    int status;
    waitpid(pid, &status, 0);
    failed += status != 0;
  }
  g_stop = 1;
  for (int i = 0; i < 4; ++i) pthread_join(threads[i], NULL);
  printf("failed %d\n", failed);
  return 0;
}

int main(int argc, char **argv) {
  const char *what = argv[argc - 1];
  if (!strcmp(what, "opens")) run(opens, kThreads);
  if (!strcmp(what, "fork")) return fork_among_threads();
  if (!strcmp(what, "shared")) {
    g_shared = fopen("shared", "w");
    run(prints, 4);
    fclose(g_shared);
  }
  if (!strcmp(what, "destructors")) {
    for (int i = 0; i < 3; ++i) pthread_key_create(g_keys + i, destructor);
    run(with_keys, 4);
  }
  if (!strcmp(what, "many")) {
    for (int i = 0; i < 300; ++i) run(with_keys, 1);
  }
  if (!strcmp(what, "turns")) one_after_the_other();
  if (!strcmp(what, "context")) {
    pthread_t threads[2];
    pthread_create(threads, NULL, in_context, "task=one");
    pthread_create(threads + 1, NULL, in_context, "task=two");
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
  }
  return 0;
}
