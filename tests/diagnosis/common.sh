# shellcheck shell=bash
# What the cases share: each runs in an empty folder, makes its workflow, and traces it into ./run.
#
#   task STAGE TASK COMMAND...   a task of a script
#   traced COMMAND...            the workflow
#   field ROWS CHUNKS            makes field.h5: a compressed dataset t, ROWS x 3000, of chunks "ROWS, COLUMNS"
#   python burn.py SECONDS       uses a processor for so long, and no more on a busy machine
set -u
export OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=1
task() {
  local stage=$1 name=$2
  shift 2
  tailrace tag --stage "$stage" --task "$name" -- "$@"
}
export -f task
traced() { timeout 200 tailrace run -q -o run -- "$@"; }
cat > burn.py << 'P'
import sys, time
end = time.process_time() + float(sys.argv[1])
while time.process_time() < end:
    sum(range(10_000))
P
numbers() { seq "$1" | awk -v seed="$2" 'BEGIN { srand(seed) } { printf "%06d row %d\n", rand() * 999999, $1 }'; }
field() {
  python -c "
import h5py, numpy
with h5py.File('field.h5', 'w') as f:
    values = numpy.random.default_rng(2).integers(0, 50, ($1, 3000)).astype('f4')
    f.create_dataset('t', data=values, chunks=($2), compression='gzip', compression_opts=1)"
}
