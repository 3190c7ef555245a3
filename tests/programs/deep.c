/* A library that is loaded with RTLD_DEEPBIND: its calls are bound to libc before any preloaded library. */
#include <fcntl.h>
#include <unistd.h>

int write_deep(void) {
  int fd = open("deep", O_WRONLY | O_CREAT | O_TRUNC, 0600);
  int n = (int)write(fd, "deep", 4);
  close(fd);
  return n;
}
