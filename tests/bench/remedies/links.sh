# shellcheck shell=bash source=tests/bench/remedies/common.sh
# Each of six tasks copies the same reference and reads a little of the copy; remedied: a hard link.
. "$(dirname "$0")/common.sh"
head -c 300000000 /dev/urandom > reference
cat > as_is.sh << 'S'
for i in 1 2 3 4 5 6; do
  mkdir scratch$i
  ./task align align$i sh -c "cp reference scratch$i/; head -c 1000 scratch$i/reference | wc -c > align$i"
done
S
sed 's/cp reference/ln reference/' as_is.sh > remedied.sh
