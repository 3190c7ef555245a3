// A library whose constructor starts a thread and waits for it, while the dynamic linker holds its lock. The thread
// makes calls that the process has not made yet.
#include <fcntl.h>
#include <glob.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <unistd.h>

static void *work(void *unused) {
  int fd = creat("made", 0600);
  struct iovec parts[] = {{"one ", 4}, {"two\n", 4}};
  pwritev(fd, parts, 2, 0);
  fdatasync(fd);
  posix_fallocate(fd, 0, 8);
  struct statvfs space;
  fstatvfs(fd, &space);
  close(fd);
  mkfifo("fifo", 0600);
  link("made", "linked");
  glob_t found;
  glob("*e*", 0, NULL, &found);
  FILE *list = fopen("list", "w+");
  for (size_t i = 0; i < found.gl_pathc; ++i) fputws(L"found\n", list);
  fclose(list);
  globfree(&found);
  char name[] = "dirXXXXXX";
  rmdir(mkdtemp(name));
  return unused;
}

__attribute__((constructor)) static void begin(void) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, work, NULL) == 0) pthread_join(thread, NULL);
}
