/* Streams without a descriptor, over others' descriptors, and closed in odd ways. It prints what it reads. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static ssize_t cookie_read(void *left, char *buffer, size_t n) {
  int *count = left;
  if (*count == 0) return 0;
  --*count;
  memset(buffer, 'k', n < 10 ? n : 10);
  int fd = open("inside", O_WRONLY | O_CREAT | O_APPEND, 0600);
  write(fd, "cookie", 6);
  close(fd);
  return n < 10 ? n : 10;
}

int main(void) {
  char text[] = "in memory\nline two\n", line[100], *grown = NULL;
  size_t size = 0;
  FILE *f = fmemopen(text, strlen(text), "r");
  while (fgets(line, sizeof line, f)) fputs(line, stdout);
  fclose(f);
  f = open_memstream(&grown, &size);
  for (int i = 0; i < 1000; ++i) fprintf(f, "%d,", i), putc_unlocked(' ', f);
  fclose(f);
  printf("%zu %.20s\n", size, grown);
  free(grown);
  int count = 5;
  f = fopencookie(&count, "r", (cookie_io_functions_t){.read = cookie_read});
  int c, n = 0;
  while ((c = getc(f)) != EOF) n += c == 'k';
  fclose(f);
  printf("%d\n", n);
  f = tmpfile();
  fputs("temporary", f);
  rewind(f);
  printf("%s\n", fgets(line, sizeof line, f));
  fclose(f);
  f = fopen("update", "w+");
  fputs("0123456789", f);
  f = freopen(NULL, "r", f);
  printf("%s\n", f && fgets(line, sizeof line, f) ? line : "freopen");
  if (f) fclose(f);
  f = fopen("update", "r");
  close(fileno(f));
  printf("closed below: %d", fgetc(f));
  printf(" %d\n", fclose(f));
  f = fopen("update", "r");
  printf("write to a reader: %d", fputs("x", f));
  printf(" %d %zu\n", errno, fwrite("abc", 1, 3, f));
  printf("%zu %zu\n", fread(line, 0, 5, f), fread(line, 4, 3, f));
  printf("%zu %d\n", fread(line, 4, 0, f), ferror(f) != 0);
  fclose(f);
  f = fopen("/dev/full", "w");
  fputs("nowhere", f);
  printf("full: %d", fflush(f));
  printf(" %d\n", fclose(f));
  f = fopen("update", "r+");
  setvbuf(f, line, _IOFBF, sizeof line);
  fseek(f, 5, SEEK_SET);
  putc('X', f);
  fseek(f, 0, SEEK_SET);
  char *got = NULL;
  size_t room = 0;
  printf("%zd", getline(&got, &room, f));
  printf(" %s", got);
  printf(" %zd\n", getline(&got, &room, f));
  fclose(f);
  f = fopen("no/such/file", "r");
  printf("%d %d\n", f == NULL, errno);
  return 0;
}
