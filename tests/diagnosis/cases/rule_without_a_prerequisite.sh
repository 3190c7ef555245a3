# shellcheck shell=bash source=tests/diagnosis/common.sh
# A rule of make reads what another one makes, and does not say so.
. "$(dirname "$0")/../common.sh"
cat > Makefile << 'M'
all: a.txt b.txt
a.txt:
	seq 200000 > $@
b.txt: seed
	sleep 0.5; sort -r a.txt > $@
M
touch seed
traced make -f Makefile -f "$(tailrace adapter make)" -j2
