# shellcheck shell=bash source=tests/diagnosis/common.sh
# A dataset of HDF5 is read once, in pieces that are its chunks.
. "$(dirname "$0")/../common.sh"
field 4000 "200, 3000"
cat > mean.py << 'P'
import h5py
with h5py.File("field.h5") as f, open("means.txt", "w") as out:
    for row in range(0, 4000, 200): out.write(f"{f['t'][row : row + 200].mean()}\n")
P
cat > flow.sh << 'S'
task mean mean python mean.py
S
traced bash flow.sh
