# shellcheck shell=bash source=tests/diagnosis/common.sh
# A C program writes lines of 12 bytes to a pipe, a call for each.
. "$(dirname "$0")/../common.sh"
cat > gen.c << 'C'
#include <unistd.h>
int main(void) {
  for (int i = 0; i < 400000; ++i) {
    if (write(1, "some number\n", 12) != 12) return 1;
  }
  return 0;
}
C
gcc -O1 -o gen gen.c
cat > flow.sh << 'S'
task count count sh -c './gen | sort | uniq -c > counts'
S
traced bash flow.sh
