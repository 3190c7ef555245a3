#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int argc, char **argv) {
  int n = argc > 1 ? atoi(argv[1]) : 100;
  char buf[4096] = {1};
  mkdir("sub", 0755);
  int fd = open("sub/data.bin", O_RDWR | O_CREAT | O_TRUNC, 0644);
  for (int i = 0; i < n; i++)
    if (write(fd, buf, 4096) < 0) return 1;
  lseek(fd, 0, SEEK_SET);
  for (int i = 0; i < n; i++)
    if (read(fd, buf, 4096) < 0) return 1;
  for (int i = 0; i < 10; i++)
    if (pread(fd, buf, 100, i * 1000) < 0) return 1;
  close(fd);
  FILE *f = fopen("/srv/example/out.txt", "w");
  fwrite(buf, 16, 100, f);
  fclose(f);
  f = fopen("/srv/example/out.txt", "r");
  size_t got = fread(buf, 16, 100, f);
  fclose(f);
  (void)got;
  int a = open("sub/data.bin", O_RDONLY), b = open("sub/copy.bin", O_RDWR | O_CREAT | O_TRUNC, 0644);
  if (copy_file_range(a, 0, b, 0, 8192, 0) < 0) perror("cfr");
  close(a);
  close(b);
  pid_t p = fork();
  if (p == 0) {
    int c = open("sub/copy.bin", O_RDONLY);
    if (read(c, buf, 4096) < 0) return 1;
    close(c);
    exit(0);
  }
  waitpid(p, 0, 0);
  int bad = open("/nonexistent/x", O_RDONLY);
  (void)bad;
  rename("sub/copy.bin", "sub/moved.bin");
  unlink("sub/moved.bin");
  return 0;
}
