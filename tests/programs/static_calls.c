/* Calls of many kinds, for a program that is linked statically with libtailrace.a (test_static_programs.py): threads,
 * streams, inlined getc and putc, forks that end by exit and _exit, children by system, popen and posix_spawn, of which
 * one is not there, and a program that takes the process's place. With a word it names a stage for what follows. */
#define _GNU_SOURCE
#include <dirent.h>
#include <err.h>
#include <fcntl.h>
#include <pthread.h>
#include <pwd.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <tailrace/tailrace.h>
#include <unistd.h>

extern char **environ;

static void put(const char *name, const char *text) {
  int fd = open(name, O_CREAT | O_WRONLY | O_TRUNC, 0644);
  if (write(fd, text, strlen(text)) < 0) abort();
  close(fd);
}

static void *work(void *number) {
  char name[32], back[64];
  snprintf(name, sizeof name, "thread%ld", (long)number);
  int fd = open(name, O_CREAT | O_RDWR | O_TRUNC, 0644);
  for (int i = 0; i < 100; ++i) {
    if (write(fd, "0123456789", 10) != 10) abort();
  }
  if (pread(fd, back, sizeof back, 0) != sizeof back) abort();
  close(fd);
  return NULL;
}

static void use_threads(void) {
  pthread_t threads[3];
  for (long i = 0; i < 3; ++i) pthread_create(&threads[i], NULL, work, (void *)i);
  for (int i = 0; i < 3; ++i) pthread_join(threads[i], NULL);
}

static void use_streams(void) {
  FILE *f = fopen("lines", "w");
  for (int i = 0; i < 1000; ++i) fprintf(f, "line %d\n", i);
  for (int i = 0; i < 5000; ++i) putc_unlocked('x', f);
  fputs("text\n", f), fwrite("block", 1, 5, f), putc('c', f);
  struct passwd user = {"ada", "x", 1, 2, "Ada", "/home/ada", "/bin/sh"};
  putpwent(&user, f);
  fclose(f);
  f = fopen("lines", "r");
  char *line = NULL;
  size_t room = 0;
  int number, taken = 0;
  for (int i = 0; i < 10; ++i) taken += getline(&line, &room, f) > 0;
  if (fscanf(f, "line %d\n", &number) == 1) ++taken;
  while (getc_unlocked(f) != EOF) ++taken;
  fclose(f), free(line);
  printf("taken %d\n", taken);
  fflush(stdout);
}

static void use_files(void) {
  struct iovec parts[2] = {{"ab", 2}, {"cde", 3}};
  struct stat status;
  int fd = openat(AT_FDCWD, "parts", O_CREAT | O_WRONLY | O_TRUNC, 0600);
  if (writev(fd, parts, 2) != 5 || fstat(fd, &status)) abort();
  close(fd);
  rename("parts", "renamed");
  DIR *folder = opendir(".");
  while (readdir(folder)) {
  }
  closedir(folder);
}

static void use_children(void) {
  int status;
  pid_t pid = fork();
  if (!pid) put("child", "child\n"), exit(3);
  waitpid(pid, &status, 0);
  pid = fork();
  if (!pid) put("sudden", "sudden child\n"), _exit(4);
  waitpid(pid, &status, 0);
  status = system("cat lines > copied");
  char words[100] = "";
  FILE *pipe = popen("wc -c < lines", "r");
  if (!fgets(words, sizeof words, pipe)) abort();
  pclose(pipe);
  char *copy[] = {"dd", "if=lines", "of=spawned", "status=none", NULL}, *missing[] = {"tailrace-nothing", NULL};
  if (!posix_spawnp(&pid, "dd", NULL, NULL, copy, environ)) waitpid(pid, &status, 0);
  if (!posix_spawnp(&pid, missing[0], NULL, NULL, missing, environ)) abort();
  printf("counted %s", words);
}

int main(int argc, char **argv) {
  if (argc > 1) {
    put("before", "before");
    tailrace_context_enter("stage=named");
    put("after", "after");
    printf("active %d\n", tailrace_active());
    return 0;
  }
  use_threads(), use_streams(), use_files(), use_children();
  warnx("warned");
  fflush(stdout);
  execlp("cat", "cat", "renamed", (char *)NULL);
  return 1;
}
