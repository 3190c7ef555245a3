# shellcheck shell=bash source=tests/bench/remedies/common.sh
# A script writes records of 20 bytes, a call for each; remedied: through Python's buffer.
. "$(dirname "$0")/common.sh"
cat > write.py << 'P'
import sys
with open("records", "wb", buffering=int(sys.argv[1])) as f:
    for i in range(1_000_000): f.write(b"record %012d\n" % i)
P
echo './task write write python write.py 0; ./task sum sum sh -c "sha256sum records > sum"' > as_is.sh
echo './task write write python write.py 65536; ./task sum sum sh -c "sha256sum records > sum"' > remedied.sh
