# shellcheck shell=bash source=tests/bench/remedies/common.sh
# A script writes lines of 12 bytes to a pipe, a call for each; remedied: through the C library's buffer.
. "$(dirname "$0")/common.sh"
cat > gen.c << 'C'
#include <stdio.h>
#include <unistd.h>
int main(int argc, char **argv) {
  for (int i = 0; i < 1500000; ++i) {
    if (argc > 1 ? fwrite("some number\n", 1, 12, stdout) != 12 : write(1, "some number\n", 12) != 12) return 1;
  }
  return 0;
}
C
gcc -O1 -o gen gen.c
echo './task count count sh -c "./gen | sort | uniq -c > counts"' > as_is.sh
echo './task count count sh -c "./gen buffered | sort | uniq -c > counts"' > remedied.sh
