# shellcheck shell=bash source=tests/bench/remedies/common.sh
# A program flushes its journal after each of 8,000 records; remedied: after the last one.
. "$(dirname "$0")/common.sh"
cat > log.py << 'P'
import os, sys
with open("journal", "wb", buffering=0) as f:
    for i in range(8000):
        f.write(b"one record of thirty-two bytes..")
        if sys.argv[1] == "each" or i == 7999: os.fsync(f.fileno())
P
echo './task log log python log.py each; ./task read read sh -c "wc -c < journal > size"' > as_is.sh
echo './task log log python log.py last; ./task read read sh -c "wc -c < journal > size"' > remedied.sh
