/* Every call that moves bytes through a descriptor, once or twice, with results short of what was asked.
 *   posix_calls DATA */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

int main(int argc, char **argv) {
  static char buffer[100000];
  struct iovec parts[2] = {{buffer, 100}, {buffer + 100, 200}};
  int in = open(argv[argc - 1], O_RDONLY), out = open("out", O_RDWR | O_CREAT | O_TRUNC, 0600);
  read(in, buffer, sizeof buffer);
  pread(in, buffer, 50, 1000);
  pread(in, buffer, sizeof buffer, 399990);
  readv(in, parts, 2);
  preadv(in, parts, 2, 5);
  preadv2(in, parts, 2, -1, 0);
  write(out, buffer, 1234);
  pwrite(out, buffer, 10, 5000);
  writev(out, parts, 2);
  pwritev(out, parts, 1, 77);
  pwritev2(out, parts, 2, -1, 0);
  off64_t at = 7;
  copy_file_range(in, &at, out, NULL, 999, 0);
  off_t from = 3;
  sendfile(out, in, &from, 444);
  sendfile(out, in, NULL, 5);
  int ends[2];
  if (pipe(ends)) return 1;
  splice(in, NULL, ends[1], NULL, 3000, 0);
  splice(ends[0], NULL, out, NULL, 3000, 0);
  int copy = dup(out), other = dup2(copy, 50), third = fcntl(out, F_DUPFD_CLOEXEC, 60);
  write(copy, "copy", 4);
  write(other, "other", 5);
  write(third, "third", 5);
  close(other);
  other = openat(AT_FDCWD, "second", O_WRONLY | O_CREAT, 0600);
  write(other, "two", 3);
  ftruncate(other, 1);
  char name[] = "temporaryXXXXXX";
  int temporary = mkstemp(name);
  write(temporary, "t", 1);
  rename(name, "temporary");
  mkdir("made", 0700);
  int dir = open("made", O_DIRECTORY | O_RDONLY);
  int inside = openat(dir, "inside", O_CREAT | O_WRONLY, 0600);
  write(inside, "inside", 6);
  renameat(dir, "inside", dir, "renamed");
  unlinkat(dir, "renamed", 0);
  unlink("second");
  write(inside, "after unlink", 12);
  int memory = memfd_create("m", 0);
  write(memory, "memory", 6);
  read(99, buffer, 1);
  return 0;
}
