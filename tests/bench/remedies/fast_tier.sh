# shellcheck shell=bash source=tests/bench/remedies/common.sh
# Six inputs lie on a tier of 4 MB/s (slow_reads.c), two tasks at a time; remedied: in the page cache.
. "$(dirname "$0")/common.sh"
cc -shared -fPIC -O2 -o slow_reads.so "$(dirname "$0")/../slow_reads.c" -ldl
mkdir in; for i in 1 2 3 4 5 6; do numbers 200000 "$i" > "in/$i"; done
cat > one.sh << 'S'
./task sort sort$1 sh -c "cat in/$1 | sort > sorted$1"
S
cat > remedied.sh << 'S'
seq 6 | xargs -P 2 -L 1 bash one.sh
./task merge merge sh -c 'sort -m sorted* > all'
S
cat - remedied.sh > as_is.sh << 'S'
export SLOW_DIR=$PWD/in/ SLOW_RATE=4000000 LD_PRELOAD=${LD_PRELOAD:+$LD_PRELOAD:}$PWD/slow_reads.so
S
