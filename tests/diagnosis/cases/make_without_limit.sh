# shellcheck shell=bash source=tests/diagnosis/common.sh
# make -j starts ten rules at a time that compute.
. "$(dirname "$0")/../common.sh"
cat > Makefile << 'M'
all: $(foreach i,1 2 3 4 5 6 7 8 9 10,r$(i))
r%:
	python burn.py 0.4 && echo $* > $@
M
traced make -f Makefile -f "$(tailrace adapter make)" -j
