# shellcheck shell=bash source=tests/diagnosis/common.sh
# A C program sleeps and calls access(2) until a script has written its parameters.
. "$(dirname "$0")/../common.sh"
cat > solve.c << 'C'
#include <stdio.h>
#include <unistd.h>
int main(void) {
  while (access("parameters", R_OK) != 0) usleep(20000);
  FILE *in = fopen("parameters", "r"), *out = fopen("solution", "w");
  long sum = 0, value;
  while (fscanf(in, "%ld", &value) == 1) sum += value;
  fprintf(out, "%ld\n", sum);
  return fclose(out);
}
C
gcc -O1 -o solve solve.c
cat > flow.sh << 'S'
task solve solve ./solve &
task prepare prepare sh -c 'python burn.py 1; seq 50000 > p.tmp; mv p.tmp parameters'
wait
S
traced bash flow.sh
