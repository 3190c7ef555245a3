# shellcheck shell=bash source=tests/diagnosis/common.sh
# One of four tables has a line that the second program of a pipeline can't read; sort, the last one, ends well.
. "$(dirname "$0")/../common.sh"
for part in a b c d; do numbers 120000 7 > table.$part; done
sed -i '60000s/.*/no number here/' table.c
cat > convert.py << 'P'
import sys
for line in sys.stdin:
    print(int(line.split()[0]) * 2, line.split()[2])
P
cat > Makefile << 'M'
all: merged
part.%: table.%
	cat $< | python convert.py 2> errors.$* | sort -n > $@
merged: part.a part.b part.c part.d
	cat $^ > $@
M
traced make -f Makefile -f "$(tailrace adapter make)" -j2
