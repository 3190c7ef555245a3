# shellcheck shell=bash source=tests/diagnosis/common.sh
# Frames are filtered in a work array of 48 MB that is allocated and freed for each: the kernel clears every page anew.
. "$(dirname "$0")/../common.sh"
cat > filter.c << 'C'
#include <stdio.h>
#include <stdlib.h>
int main(int n, char **names) {
  const size_t size = 6u << 20;
  double sum = 0;
  for (int frame = 0; frame < 120; ++frame) {
    double *work = malloc(size * sizeof *work);
    for (size_t at = 0; at < size; at += 512) work[at] = frame;
    sum += work[(size_t)frame * 512];
    free(work);
  }
  FILE *out = fopen(names[n - 1], "w");
  fprintf(out, "%f\n", sum);
  return fclose(out);
}
C
gcc -O1 -o filter filter.c
traced sh -c './filter a; ./filter b; cat a b > all'
