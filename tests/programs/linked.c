/* Copies `given` to `copied`. Linked in several ways, which decide how its calls reach libc (../CMakeLists.txt). */
#include <fcntl.h>
#include <unistd.h>

int main(void) {
  char buffer[100];
  int in = open("given", O_RDONLY), out = open("copied", O_WRONLY | O_CREAT | O_TRUNC, 0600);
  ssize_t n = read(in, buffer, sizeof buffer);
  return write(out, buffer, (size_t)n) != n;
}
