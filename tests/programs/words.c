/* wordexp with commands in its words. words WHAT; prints what came of it. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <wordexp.h>

extern char **environ;

static void show_settings(void) {
  for (char **e = environ; e && *e; ++e) {
    bool preloads = !strncmp(*e, "LD_PRELOAD=", 11) && strstr(*e, "libtailrace");
    if (!strncmp(*e, "TAILRACE_RUN=", 13) || !strncmp(*e, "TAILRACE_PROCESS=", 17) || preloads) puts(*e);
  }
}

static void expand(const char *words, int flags) {
  wordexp_t out;
  memset(&out, 0, sizeof out);
  int ret = wordexp(words, &out, flags);
  flockfile(stdout);
  printf("%s -> %d, %zu:", words, ret, ret ? 0 : out.we_wordc);
  for (size_t i = 0; !ret && i < out.we_wordc && i < 5; ++i) printf(" [%.20s]", out.we_wordv[i]);
  puts("");
  funlockfile(stdout);
  if (!ret) wordfree(&out);
}

static void many(void) {
  expand("$(cat text.txt) *.bin", 0);
  expand("\"`wc -l < text.txt` lines\" $((1 + 2))", 0);
  expand("$(exit 3)", 0);
  expand("$(echo 'unfinished", 0);
  expand("$(if)", 0);
  expand("$(cat nowhere)$(cat nowhere >&2)", WRDE_SHOWERR);
  expand("$(cat text.txt)", WRDE_NOCMD);
  expand("${NOWHERE:?is not set}", WRDE_SHOWERR);
  expand("~root/x $HOME", 0);
}

/* What a call does to the environment, in a variable that is there and in one that isn't. */
static void assignments(void) {
  setenv("EMPTY", "", 1);
  expand("${EMPTY:=full} $(echo a; echo b)", 0);
  expand("${NEW:=$(echo made)} $(echo $NEW; printenv EMPTY)", 0);
  setenv("LATER", "1", 1);
  printf("%s %s %s\n", getenv("EMPTY"), getenv("NEW"), getenv("LATER"));
  show_settings();
  char **none = NULL;
  environ = none;
  expand("$(echo nothing)", 0);
  printf("%d\n", environ == NULL);
}

static void reap(int signal) {
  int saved = errno;
  while (waitpid(-1, NULL, WNOHANG) > 0) {
  }
  errno = saved;
}

/* A handler that takes every child, as shells' and servers' do. */
static void handler(void) {
  struct sigaction action = {.sa_handler = reap, .sa_flags = SA_RESTART};
  sigaction(SIGCHLD, &action, NULL);
  for (int i = 0; i < 10; ++i) expand("\"$(head -c 1000 text.txt | wc -c)\"", 0);
}

static volatile int over;
static void *write_on(void *name) {
  FILE *out = fopen(name, "w");
  while (!over) fputs("a line\n", out), fflush(out), usleep(100);
  fclose(out);
  return NULL;
}
static void *run_on(void *unused) {
  while (!over) system("cat text.txt > /dev/null");
  return NULL;
}

/* While other threads write and wait for children of theirs. */
static void threads(void) {
  pthread_t others[3];
  pthread_create(&others[0], NULL, write_on, "one");
  pthread_create(&others[1], NULL, write_on, "two");
  pthread_create(&others[2], NULL, run_on, NULL);
  for (int i = 0; i < 10; ++i) expand("$(head -n 1000 text.txt)", 0);
  over = 1;
  for (int i = 0; i < 3; ++i) pthread_join(others[i], NULL);
}

static void *expand_often(void *unused) {
  for (int i = 0; i < 20; ++i) expand("$(wc -l < text.txt) ${UNSET_HERE:-$(echo other)}", 0);
  return NULL;
}

/* Two at once. */
static void twice(void) {
  pthread_t other;
  pthread_create(&other, NULL, expand_often, NULL);
  expand_often(NULL);
  pthread_join(other, NULL);
  show_settings();
}

static void *expand_for_long(void *unused) {
  expand("$(exec sleep 3)", 0);
  return NULL;
}

/* A thread is cancelled while its command runs. */
static void cancelled(void) {
  pthread_t thread;
  pthread_create(&thread, NULL, expand_for_long, NULL);
  usleep(300000);
  pthread_cancel(thread);
  void *result;
  pthread_join(thread, &result);
  printf("%d\n", result == PTHREAD_CANCELED);
  show_settings();
  puts(getenv("PATH") ? "a path" : "no path");
}

int main(int argc, char **argv) {
  setvbuf(stdout, NULL, _IONBF, 0);
  if (!strcmp(argv[1], "many")) many();
  if (!strcmp(argv[1], "assignments")) assignments();
  if (!strcmp(argv[1], "handler")) handler();
  if (!strcmp(argv[1], "threads")) threads();
  if (!strcmp(argv[1], "twice")) twice();
  if (!strcmp(argv[1], "cancelled")) cancelled();
  return 0;
}
