# shellcheck shell=bash source=tests/diagnosis/common.sh
# Members of an ensemble, two at a time, read one small table, and differ by a variable of the environment alone.
. "$(dirname "$0")/../common.sh"
seq 1 500 > parameters.txt
cat > model.py << 'P'
import os, random, sys
random.seed(int(os.environ["MEMBER"]))
state = [float(line) for line in open("parameters.txt")]
for step in range(1500):
    state = [value * 0.99 + random.random() for value in state]
sys.stdout.buffer.write(b"".join(round(value * 1e6).to_bytes(8, "little") for value in state))
P
cat > flow.sh << 'S'
seq 4 | xargs -P 2 -I @ bash -c 'task model m@ sh -c "MEMBER=@ python model.py > state@"'
task mean mean sh -c 'cat state? | sha256sum > sum'
S
traced bash flow.sh
