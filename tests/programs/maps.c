/* Mappings of `data` (16 pages) and of a shared memory object: made, cut, moved, written back, ended. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096

int main(int argc, char **argv) {
  int fd = open("data", O_RDWR);
  char *whole = mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  char *copy = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 2 * PAGE);
  close(fd);
  memset(whole + 4 * PAGE, 'x', PAGE);
  copy[0] = 'y';
  msync(whole + 4 * PAGE, PAGE, MS_SYNC);
  /* Out of the middle: two parts are left. */
  munmap(whole + 8 * PAGE, PAGE);
  char *moved = mremap(copy, PAGE, 3 * PAGE, MREMAP_MAYMOVE);
  /* Memory of no file, which is not to be seen, over a part of the file's. */
  mmap(whole + 12 * PAGE, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  munmap(whole, 16 * PAGE);
  munmap(moved, 3 * PAGE);
  munmap(mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), PAGE);
  int shared = shm_open(argv[1], O_RDWR | O_CREAT, 0600);
  ftruncate(shared, PAGE);
  char *memory = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, shared, 0);
  strcpy(memory, "for the other");
  munmap(memory, PAGE);
  return 0;
}
