/* Calls of C, compiled with -finstrument-functions: instrumented FILE [PLUGIN PLUGIN]. Its log is its output.
 * A library that is loaded has a function `plugin`, which gets a function that opens the file. */
#include <dlfcn.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <ucontext.h>

#include "call_log.h"

static jmp_buf back;
static volatile int sink;

static __attribute__((noinline)) void jumps(int levels) {
  call_begins("jumps");
  open_file();
  if (levels) jumps(levels - 1);
  longjmp(back, 1);
}

static __attribute__((noinline)) void lands(void) {
  call_begins("lands");
  for (volatile int i = 0; i < 3; ++i) {
    int here = open_count;
    if (setjmp(back) == 0) jumps(i);
    open_count = here;
    open_file();
  }
  call_ends();
}

static inline __attribute__((always_inline)) void inlined(int opens) {
  call_begins("inlined");
  if (opens) open_file();
  call_ends();
}

/* Stack that grows within a call. */
__attribute__((noinline)) void grows(size_t bytes) {
  call_begins("grows");
  volatile char *room = __builtin_alloca(bytes);
  room[0] = 1;
  inlined(1);
  sink += room[0];
  open_file();
  call_ends();
}

static __attribute__((noinline)) int last(int n) {
  call_begins("last");
  open_file();
  call_ends();
  return n;
}
__attribute__((noinline)) int tail(int n) {
  call_begins("tail");
  int found = last(n + 1);
  call_ends();
  return found;
}

__attribute__((noinline)) int recurses(int n) {
  call_begins("recurses");
  int found = n ? 1 + recurses(n - 1) : 0;
  open_file();
  call_ends();
  return found;
}

static __attribute__((noinline)) void excluded(void) { open_file(); }

__attribute__((noinline)) void handler(int number) {
  call_begins("handler");
  open_file();
  call_ends();
  sink = number;
}
__attribute__((noinline)) void is_interrupted(void) {
  call_begins("is_interrupted");
  raise(SIGUSR1);
  open_file();
  call_ends();
}

__attribute__((noinline)) void forks(void) {
  call_begins("forks");
  fflush(stdout);
  if (fork() == 0) {
    inlined(1);
    open_file();
    _exit(0);
  }
  wait(NULL);
  open_file();
  call_ends();
}

static __attribute__((noinline)) int loads(const char *library) {
  void *handle = dlopen(library, RTLD_NOW);
  if (!handle) return 1;
  void (*plugin)(void (*)(const char *), void (*)(void), void (*)(void)) = dlsym(handle, "plugin");
  plugin(call_begins, open_file, call_ends);
  return dlclose(handle);
}

int main(int count, char **words) {
  begin_log(words[1]);
  signal(SIGUSR1, handler);
  lands();
  open_file();
  grows(100);
  grows(5000);
  inlined(1);
  tail(1);
  open_file();
  recurses(3);
  excluded();
  is_interrupted();
  forks();
  open_file();
  for (int i = 2; i < count; ++i) {
    if (loads(words[i])) return 1;
  }
  print_log();
  return 0;
}
