# shellcheck shell=bash source=tests/bench/remedies/common.sh
# make builds six parts that compute, one at a time; remedied: -j2.
. "$(dirname "$0")/common.sh"
cat > Makefile << 'M'
all: parts.txt
parts.txt: $(foreach i,1 2 3 4 5 6,part$i)
	cat $^ > $@
part%:
	python burn.py 0.5 && seq 10000 > $@
M
cat > as_is.sh << 'S'
make -s -f Makefile ${ADAPTER:+-f "$ADAPTER"} -j1
S
cat > remedied.sh << 'S'
make -s -f Makefile ${ADAPTER:+-f "$ADAPTER"} -j2
S
