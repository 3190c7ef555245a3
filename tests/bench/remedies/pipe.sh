# shellcheck shell=bash source=tests/bench/remedies/common.sh
# A task makes text, the next one compresses it; remedied: side by side through a FIFO.
. "$(dirname "$0")/common.sh"
cat > gen.py << 'P'
import random, sys
random.seed(3)
with open(sys.argv[1], "w") as f:
    for i in range(1_500_000): f.write(f"{i} {random.random()} {i * i % 977}\n")
P
cat > as_is.sh << 'S'
./task gen gen python gen.py text
./task use use sh -c "gzip -4 < text > text.gz"
S
cat > remedied.sh << 'S'
mkfifo text
./task gen gen python gen.py text &
./task use use sh -c "gzip -4 < text > text.gz"
wait
S
