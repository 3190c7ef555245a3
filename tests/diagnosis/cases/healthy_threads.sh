# shellcheck shell=bash source=tests/diagnosis/common.sh
# A C program reads a file in two threads, in large calls, and computes.
. "$(dirname "$0")/../common.sh"
head -c 60000000 /dev/zero > in
cat > sums.c << 'C'
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static int file;
static long sums[2];
static void *work(void *argument) {
  long number = (long)argument, size = 1 << 20;
  unsigned char *part = malloc(size);
  for (long at = number; at < 57; at += 2) {
    ssize_t got = pread(file, part, size, at * size);
    for (int again = 0; again < 20; ++again)
      for (ssize_t i = 0; i < got; ++i) sums[number] += part[i] ^ again;
  }
  free(part);
  return 0;
}
int main(void) {
  pthread_t threads[2];
  file = open("in", O_RDONLY);
  for (long i = 0; i < 2; ++i) pthread_create(&threads[i], 0, work, (void *)i);
  for (int i = 0; i < 2; ++i) pthread_join(threads[i], 0);
  FILE *out = fopen("sums.txt", "w");
  fprintf(out, "%ld\n", sums[0] + sums[1]);
  return fclose(out);
}
C
gcc -O0 -pthread -o sums sums.c
traced ./sums
