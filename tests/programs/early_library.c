// A library whose constructor does I/O before any other library's has run, and its destructor after.
#include <stdio.h>
#include <stdlib.h>

static void write_to(const char *name, const char *text) {
  FILE *file = fopen(name, "a");
  if (!file || fputs(text, file) < 0 || fclose(file)) abort();
}

__attribute__((constructor)) static void begin(void) { write_to("early", "begun\n"); }
__attribute__((destructor)) static void end(void) { write_to("early", "ended\n"); }

int early_answer(void) { return 42; }
