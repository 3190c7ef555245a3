/* A program's own log of its calls, for programs that are compiled with -finstrument-functions: what of them a trace has to
 * have. Lines are "call PATH" and "open PATH", in memory that forked children share; print_log() writes them all.
 * PATH: the functions that are open in the thread, joined by slashes, one that calls itself once. */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define UNSEEN __attribute__((no_instrument_function))
enum { LINE_BYTES = 512, MOST_LINES = 8192, MOST_OPEN = 2048 };

struct call_log {
  atomic_int count;
  char lines[MOST_LINES][LINE_BYTES];
};
static struct call_log *the_log;
static const char *the_file;
static __thread const char *open_calls[MOST_OPEN];
static __thread int open_count;

UNSEEN static void write_line(const char *word) {
  char *line = the_log->lines[atomic_fetch_add(&the_log->count, 1)];
  size_t n = (size_t)snprintf(line, LINE_BYTES, "%s ", word);
  for (int i = 0; i < open_count; ++i) {
    if (i && strcmp(open_calls[i], open_calls[i - 1]) == 0) continue;
    n += (size_t)snprintf(line + n, LINE_BYTES - n, "%s%s", i ? "/" : "", open_calls[i]);
  }
}

UNSEEN static void begin_log(const char *file) {
  the_log = (struct call_log *)mmap(0, sizeof *the_log, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  the_file = file;
}

UNSEEN static void call_begins(const char *name) {
  open_calls[open_count++] = name;
  write_line("call");
}
UNSEEN static void call_ends(void) { --open_count; }

/* Opens and closes the file, and logs it. */
UNSEEN static void open_file(void) {
  write_line("open");
  close(open(the_file, O_RDONLY));
}

UNSEEN static void print_log(void) {
  for (int i = 0; i < the_log->count; ++i) puts(the_log->lines[i]);
}
