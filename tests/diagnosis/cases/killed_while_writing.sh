# shellcheck shell=bash source=tests/diagnosis/common.sh
# A program is killed in the middle of its output; the next one reads what is there.
. "$(dirname "$0")/../common.sh"
cat > gen.py << 'P'
import os, signal
f = open("out", "wb")
for i in range(3): f.write(b"x" * 1_000_000)
f.flush()
os.kill(os.getpid(), signal.SIGKILL)
P
cat > flow.sh << 'S'
task gen gen python gen.py
task use use sh -c 'wc -c < out > size'
S
traced bash flow.sh
