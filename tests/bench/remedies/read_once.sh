# shellcheck shell=bash source=tests/bench/remedies/common.sh
# A script reads a table of 60 MB anew for each of thirty questions; remedied: once.
. "$(dirname "$0")/common.sh"
head -c 60000000 /dev/urandom > table
cat > ask.py << 'P'
import sys
data, counts = b"", []
for question in range(30):
    if sys.argv[1] == "each" or not data: data = open("table", "rb").read()
    counts.append(data.count(bytes([question]) * 2))
open("counts", "w").write(str(counts))
P
echo './task ask ask python ask.py each' > as_is.sh
echo './task ask ask python ask.py once' > remedied.sh
