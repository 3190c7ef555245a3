# shellcheck shell=bash source=tests/diagnosis/common.sh
# A rule of make reads a file of settings from before that is no prerequisite.
. "$(dirname "$0")/../common.sh"
mkdir data; numbers 100000 3 > data/in.txt; seq 20000 > data/exclude.txt
cat > Makefile << 'M'
data/out.txt: data/in.txt
	grep -v -F -x -f data/exclude.txt $< | sort > $@
M
traced make -f Makefile -f "$(tailrace adapter make)"
