/* Mappings of `data` (16 pages) and of a shared memory object: made, cut, moved, written back, ended. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096

/* Stores come to the file by a protection that is given later, and until the end: nothing is unmapped. */
static int protect(void) {
  int fd = open("data", O_RDWR), other = open("other", O_RDWR);
  char *shared = mmap(NULL, 8 * PAGE, PROT_READ, MAP_SHARED, fd, 4 * PAGE);
  char *copied = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, fd, 0);
  char *memory = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  mmap(NULL, PAGE, PROT_READ, MAP_SHARED, other, 0);
  mprotect(shared + PAGE, 2 * PAGE, PROT_READ | PROT_WRITE);
  mprotect(shared + PAGE, 2 * PAGE, PROT_READ | PROT_WRITE);
  mprotect(copied, PAGE, PROT_READ | PROT_WRITE);
  mprotect(memory, PAGE, PROT_READ | PROT_WRITE);
  mprotect(shared + 5 * PAGE, PAGE, PROT_NONE);
  mprotect((void *)8, PAGE, PROT_WRITE);
  shared[PAGE] = copied[0] = memory[0] = 'z';
  /* It has the mappings and does nothing. */
  if (fork() == 0) return 0;
  wait(NULL);
  return 0;
}

int main(int argc, char **argv) {
  if (!strcmp(argv[1], "protect")) return protect();
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
