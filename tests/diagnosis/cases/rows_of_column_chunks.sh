# shellcheck shell=bash source=tests/diagnosis/common.sh
# Single rows are read of a compressed dataset whose chunks are columns.
. "$(dirname "$0")/../common.sh"
field 2000 "2000, 40"
cat > rows.py << 'P'
import h5py
with h5py.File("field.h5") as f, open("rows.txt", "w") as out:
    for row in range(0, 2000, 50): out.write(f"{f['t'][row].mean()}\n")
P
cat > flow.sh << 'S'
task mean mean python rows.py
S
traced bash flow.sh
