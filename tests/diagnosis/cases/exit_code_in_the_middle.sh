# shellcheck shell=bash source=tests/diagnosis/common.sh
# The second of three steps fails, and the script stops.
. "$(dirname "$0")/../common.sh"
cat > flow.sh << 'S'
set -e
task one one sh -c 'seq 100000 > a'
task two two sh -c 'sort a > b; ls /nonexistent'
task three three sh -c 'wc -l b > c'
S
traced bash flow.sh
