/* The stdio calls that are rarely thought of: dprintf, the err family, wide characters, freopen, tmpfile, fclose on
 * fdopen. stdio_calls FILE < text > out 2> err */
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <error.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <wchar.h>

static void messages(void) {
  warnx("warned %d", 1);
  errno = ENOENT;
  warn("with errno");
  perror("perror");
  error(0, ENOENT, "error %d", 2);
  fprintf(stderr, "plain\n");
}

static void wide(void) {
  FILE *f = fopen("wide", "w");
  fwprintf(f, L"number %d\n", 5);
  fputws(L"line\n", f);
  putwc(L'x', f);
  fclose(f);
  f = fopen("wide", "r");
  wchar_t line[64];
  fgetws(line, 64, f);
  while (fgetwc(f) != WEOF) {
  }
  fclose(f);
}

int main(int argc, char **argv) {
  (void)argc;
  int fd = open(argv[1], O_WRONLY | O_CREAT | O_TRUNC, 0600);
  dprintf(fd, "dprintf %s\n", "text");
  FILE *f = fdopen(fd, "w");
  fputs("fdopen\n", f);
  fclose(f);
  f = freopen("again", "w", fopen(argv[1], "r"));
  fputs("freopen\n", f);
  fclose(f);
  char line[100];
  while (fgets(line, sizeof line, stdin)) fputs(line, stdout);
  puts("puts");
  putchar('c');
  putchar_unlocked('d');
  printf("%s\n", "printf");
  putw(5, stdout);
  messages();
  wide();
  fcloseall();
  return 0;
}
