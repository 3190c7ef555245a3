# shellcheck shell=bash source=tests/diagnosis/common.sh
# One C program computes in sixteen threads.
. "$(dirname "$0")/../common.sh"
cat > heat.c << 'C'
#include <pthread.h>
#include <stdio.h>
static void *work(void *argument) {
  volatile double *sum = argument;
  for (long i = 1; i < 60000000; ++i) *sum += 1.0 / i;
  return 0;
}
int main(void) {
  enum { COUNT = 16 };
  pthread_t threads[COUNT];
  static double sums[COUNT][8];
  for (int i = 0; i < COUNT; ++i) pthread_create(&threads[i], 0, work, sums[i]);
  for (int i = 0; i < COUNT; ++i) pthread_join(threads[i], 0);
  FILE *out = fopen("heat.txt", "w");
  fprintf(out, "%f\n", sums[0][0]);
  return fclose(out);
}
C
gcc -O1 -pthread -o heat heat.c
cat > flow.sh << 'S'
task heat heat ./heat
task show show sh -c 'cat heat.txt > shown'
S
traced bash flow.sh
