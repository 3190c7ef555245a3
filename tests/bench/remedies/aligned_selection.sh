# shellcheck shell=bash source=tests/bench/remedies/common.sh
# Columns are read one by one of a compressed dataset, of which a chunk has forty; remedied: forty at a time.
. "$(dirname "$0")/common.sh"
field 2000 "2000, 40"
cat > columns.py << 'P'
import sys, h5py
step = int(sys.argv[1])
with h5py.File("field.h5", rdcc_nbytes=0) as f, open("columns.txt", "w") as out:
    for at in range(0, 1200, step):
        for mean in f["t"][:, at:at + step].mean(axis=0): out.write(f"{mean}\n")
P
echo './task mean mean python columns.py 1' > as_is.sh
echo './task mean mean python columns.py 40' > remedied.sh
