/* Files with names that few expect. It prints what each call answered. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void make(const char *name) {
  int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  write(fd, "named", 5);
  close(fd);
}

int main(void) {
  make("quote\"double");
  make("quote'single");
  make("new\nline");
  make("back\\slash\\");
  make(
      "tab\tand\x01\x7f"
      "control");
  make("invalid\xff\xfe utf\xc3");
  make("\xc3\xa4\xe2\x82\xac\xf0\x9f\x8c\x8a");
  make("{\"name\":1}, [brackets]");
  make(" (deleted)");
  make("pipe:[12]");
  make("%s%n%25");
  char longest[256];
  memset(longest, 'l', 255);
  longest[255] = 0;
  make(longest);
  static char path[10000];
  struct stat s;
  for (int n = 4000; n < 9990; n += 47) {
    memset(path, 'p', (size_t)n);
    for (int i = 100; i < n; i += 100) path[i] = '/';
    path[n] = 0;
    int a = open(path, O_RDONLY) < 0 ? errno : 0, b = stat(path, &s) < 0 ? errno : 0;
    int c = rename(path, path) < 0 ? errno : 0, d = unlink(path) < 0 ? errno : 0, e = fopen(path, "r") ? 0 : errno;
    int f = mkdir(path, 0700) < 0 ? errno : 0, g = access(path, 0) < 0 ? errno : 0, h = chdir(path) < 0 ? errno : 0;
    printf("%d: %d %d %d %d %d %d %d %d\n", n, a, b, c, d, e, f, g, h);
  }
  /* Deeper than PATH_MAX, step by step. */
  char step[201];
  memset(step, 'd', 200);
  step[200] = 0;
  for (int i = 0; i < 40; ++i) {
    if (mkdir(step, 0700) || chdir(step)) perror("step");
  }
  make("deep");
  printf("%d %d %d\n", access("deep", R_OK), stat("deep", &s), rename("deep", "deeper"));
  return 0;
}
