# shellcheck shell=bash source=tests/diagnosis/common.sh
# A C program calls fsync(2) after each of 400 records.
. "$(dirname "$0")/../common.sh"
cat > log.c << 'C'
#include <fcntl.h>
#include <unistd.h>
int main(void) {
  int file = open("journal", O_WRONLY | O_CREAT, 0644);
  for (int i = 0; i < 400; ++i) {
    if (write(file, "one record of thirty-two bytes..", 32) != 32 || fsync(file) != 0) return 1;
  }
  return close(file);
}
C
gcc -o log log.c
cat > flow.sh << 'S'
task log log ./log
task read read sh -c 'wc -c < journal > size'
S
traced bash flow.sh
