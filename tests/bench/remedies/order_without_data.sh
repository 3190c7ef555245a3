# shellcheck shell=bash source=tests/bench/remedies/common.sh
# make -j2: each task of the second stage waits for both of the first one, of which it reads nothing; remedied: it does not.
. "$(dirname "$0")/common.sh"
cat > Makefile << 'M'
all: first1 first2 second1 second2
first1:
	sleep 1.5; seq 10000 > $@
first2:
	python burn.py 0.3; seq 10000 > $@
second1 second2: $(FIRST)
	python burn.py 0.6; seq 10000 > $@
M
cat > as_is.sh << 'S'
make -s -f Makefile ${ADAPTER:+-f "$ADAPTER"} -j2 FIRST="first1 first2"
S
cat > remedied.sh << 'S'
make -s -f Makefile ${ADAPTER:+-f "$ADAPTER"} -j2
S
