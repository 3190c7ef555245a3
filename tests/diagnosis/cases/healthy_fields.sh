# shellcheck shell=bash source=tests/diagnosis/common.sh
# A dataset of HDF5 is read once, in pieces that are its chunks.
. "$(dirname "$0")/../common.sh"
cat > make.py << 'P'
import h5py, numpy
with h5py.File("field.h5", "w") as f:
    values = numpy.random.default_rng(2).integers(0, 50, (4000, 3000)).astype("f4")
    f.create_dataset("t", data=values, chunks=(200, 3000), compression="gzip", compression_opts=1)
P
python make.py
cat > mean.py << 'P'
import h5py
with h5py.File("field.h5") as f, open("means.txt", "w") as out:
    for row in range(0, 4000, 200): out.write(f"{f['t'][row : row + 200].mean()}\n")
P
cat > flow.sh << 'S'
task mean mean python mean.py
S
traced bash flow.sh
