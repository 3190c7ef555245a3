# shellcheck shell=bash source=tests/diagnosis/common.sh
# Single rows are read of a compressed dataset whose chunks are columns.
. "$(dirname "$0")/../common.sh"
cat > make.py << 'P'
import h5py, numpy
with h5py.File("field.h5", "w") as f:
    values = numpy.random.default_rng(2).integers(0, 50, (2000, 3000)).astype("f4")
    f.create_dataset("t", data=values, chunks=(2000, 40), compression="gzip", compression_opts=1)
P
python make.py
cat > rows.py << 'P'
import h5py
with h5py.File("field.h5") as f, open("rows.txt", "w") as out:
    for row in range(0, 2000, 50): out.write(f"{f['t'][row].mean()}\n")
P
cat > flow.sh << 'S'
task mean mean python rows.py
S
traced bash flow.sh
