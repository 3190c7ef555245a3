# shellcheck shell=bash source=tests/diagnosis/common.sh
# Each of six tasks copies the same reference, and reads a little of the copy.
. "$(dirname "$0")/../common.sh"
head -c 300000000 /dev/urandom > reference
cat > flow.sh << 'S'
for i in 1 2 3 4 5 6; do
  mkdir scratch$i
  task align align$i sh -c "cp reference scratch$i/; head -c 1000 scratch$i/reference | wc -c > align$i"
done
S
traced bash flow.sh
