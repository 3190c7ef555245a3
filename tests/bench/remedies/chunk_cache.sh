# shellcheck shell=bash source=tests/bench/remedies/common.sh
# Single rows are read of a compressed dataset whose chunks are columns; remedied: a chunk cache that holds them all.
. "$(dirname "$0")/common.sh"
field 2000 "2000, 40"
cat > rows.py << 'P'
import sys, h5py
with h5py.File("field.h5", rdcc_nbytes=int(sys.argv[1])) as f, open("rows.txt", "w") as out:
    t = f["t"]
    for row in range(0, 2000, 50): out.write(f"{t[row].mean()}\n")
P
echo './task mean mean python rows.py 1048576' > as_is.sh
echo './task mean mean python rows.py 67108864' > remedied.sh
