/* Reads `given` by read(2): with ../interposer preloaded, through that; and has a library loaded with RTLD_DEEPBIND
 * write `deep`. interpose_client [deep.so] */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv) {
  char buffer[100];
  int fd = open("given", O_RDONLY);
  printf("%zd\n", read(fd, buffer, sizeof buffer));
  int *count = dlsym(RTLD_DEFAULT, "interposer_count");
  printf("interposed %d\n", count ? *count : -1);
  ssize_t (*libc_read)(int, void *, size_t) =
      (ssize_t(*)(int, void *, size_t))dlsym(dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD), "read");
  lseek(fd, 0, SEEK_SET);
  printf("%zd\n", libc_read(fd, buffer, 10));
  printf("interposed %d\n", count ? *count : -1);
  lseek(fd, 0, SEEK_END);
  printf("%zd\n", read(fd, buffer, sizeof buffer));
  printf("interposed %d\n", count ? *count : -1);
  printf("%d\n", dlsym(RTLD_DEFAULT, "no_such_symbol") == NULL);
  if (argc > 1) {
    void *deep = dlopen(argv[1], RTLD_NOW | RTLD_DEEPBIND);
    int (*write_deep)(void) = deep ? (int (*)(void))dlsym(deep, "write_deep") : NULL;
    printf("deep %d\n", write_deep ? write_deep() : -1);
  }
  printf("%d\n", dlopen("/no/such/library.so", RTLD_NOW) == NULL);
  return 0;
}
