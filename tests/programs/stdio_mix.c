/* Streams used every way at once: inlined getc and putc, ungetc, seeks, fgets over zeros, items cut short, both
 * directions. stdio_mix TEXT DATA */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void copy_by_characters(const char *from) {
  FILE *in = fopen(from, "r"), *out = fopen("characters", "w");
  int c;
  while ((c = getc_unlocked(in)) != EOF) putc_unlocked(c, out);
  fclose(in);
  fclose(out);
}

/* Every fifth character goes back once and is taken again. */
static void push_back(const char *from) {
  FILE *in = fopen(from, "r"), *out = fopen("pushed", "w");
  int c, n = 0;
  while ((c = getc(in)) != EOF) {
    if (++n % 5 == 0) {
      ungetc(c, in);
      if (getc_unlocked(in) != c) abort();
    }
    putc(c, out);
  }
  fclose(in);
  fclose(out);
}

static void lines_with_zeros(void) {
  static const char text[] = "one\0two\nthree\0\0\nno end";
  FILE *f = fopen("zeros", "w");
  for (int i = 0; i < 500; ++i) fwrite(text, 1, sizeof text - 1, f);
  fclose(f);
  f = fopen("zeros", "r");
  char line[16];
  while (fgets(line, sizeof line, f)) {
  }
  fclose(f);
}

static void partial_items(const char *from) {
  struct item {
    char bytes[1000];
  } items[7];
  FILE *in = fopen(from, "r"), *out = fopen("items", "w");
  size_t n;
  while ((n = fread(items, sizeof items[0], 7, in)) > 0) fwrite(items, sizeof items[0], n, out);
  fclose(in);
  fclose(out);
}

/* Written and read through one stream, with seeks between. */
static void update(void) {
  FILE *f = fopen("update", "w+");
  for (int i = 0; i < 100; ++i) fprintf(f, "%05d\n", i);
  fseek(f, 60, SEEK_SET);
  fputs("XXXXX", f);
  fseek(f, 0, SEEK_SET);
  while (getc(f) != EOF) {
  }
  fclose(f);
}

/* Looks at the next character before it takes a number, a line, an item. */
static void peek(void) {
  FILE *f = fopen("peeked", "w");
  for (int i = 0; i < 100; ++i) fprintf(f, "%s%05d\n", i % 3 ? "" : "x", i);
  fclose(f);
  f = fopen("peeked", "r");
  char line[64];
  int c, number;
  while ((c = getc(f)) != EOF) {
    ungetc(c, f);
    if (c == 'x' ? !fgets(line, sizeof line, f) : fscanf(f, "%d", &number) != 1) break;
    if ((c = fgetc(f)) != EOF) ungetc(c, f), fread(line, 1, 1, f);
  }
  fclose(f);
}

/* What putc left in the buffer, libc flushes on the program's behalf. */
static void flushes(void) {
  FILE *f = fopen("flushes", "w");
  for (int i = 0; i < 10; ++i) {
    fputs("line", f);
    putc_unlocked('\n', f);
    if (i % 2)
      fflush_unlocked(f);
    else
      fflush(NULL);
    putc_unlocked('-', f);
  }
  fclose(f);
}

static void getline_and_unbuffered(const char *from) {
  FILE *in = fopen(from, "r"), *out = fopen("unbuffered", "w");
  setvbuf(out, NULL, _IONBF, 0);
  char *line = NULL;
  size_t room = 0;
  for (int i = 0; getline(&line, &room, in) > 0; ++i) {
    if (i < 20) fputs(line, out), putc('!', out), fputc('?', out);
  }
  free(line);
  fclose(in);
  fclose(out);
}

static void line_buffered(void) {
  FILE *out = fopen("linewise", "a");
  setvbuf(out, NULL, _IOLBF, 64);
  for (int i = 0; i < 300; ++i) {
    fprintf(out, "%d", i);
    putc_unlocked(i % 3 ? ' ' : '\n', out);
  }
  fclose(out);
  out = fopen("linewise", "a");
  fputs("appended\n", out);
  fclose(out);
}

/* What is still in a buffer at the end is libc's to flush. */
static void leave_open(void) {
  FILE *out = fopen("open", "w");
  for (int i = 0; i < 10000; ++i) putc_unlocked('a' + i % 26, out);
}

int main(int argc, char **argv) {
  (void)argc;
  copy_by_characters(argv[1]);
  push_back(argv[1]);
  lines_with_zeros();
  partial_items(argv[2]);
  update();
  peek();
  flushes();
  getline_and_unbuffered(argv[1]);
  line_buffered();
  leave_open();
  return 0;
}
