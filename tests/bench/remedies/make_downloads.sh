# shellcheck shell=bash source=tests/bench/remedies/common.sh
# make fetches eight files from a slow server, two at a time; remedied: -j4.
. "$(dirname "$0")/common.sh"
cat > Makefile << 'M'
all: sums.txt
sums.txt: $(foreach i,1 2 3 4 5 6 7 8,file$i)
	sha256sum $^ > $@
file%:
	sleep 0.8; seq 10000 > $@
M
cat > as_is.sh << 'S'
make -s -f Makefile ${ADAPTER:+-f "$ADAPTER"} -j2
S
cat > remedied.sh << 'S'
make -s -f Makefile ${ADAPTER:+-f "$ADAPTER"} -j4
S
