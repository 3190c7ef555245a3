# shellcheck shell=bash source=tests/bench/remedies/common.sh
# Twenty-four tasks each start Python and import numpy; remedied: one does the work of all.
. "$(dirname "$0")/common.sh"
cat > one.py << 'P'
import sys, numpy
for name in sys.argv[1:]:
    numpy.save("out" + name, numpy.sort(numpy.random.default_rng(int(name)).random(300_000)))
P
cat > as_is.sh << 'S'
for i in $(seq 24); do ./task one o$i python one.py $i; done; ./task join join sh -c "cat out* > all"
S
cat > remedied.sh << 'S'
./task one o python one.py $(seq 24); ./task join join sh -c "cat out* > all"
S
