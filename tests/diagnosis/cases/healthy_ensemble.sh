# shellcheck shell=bash source=tests/diagnosis/common.sh
# Members of an ensemble read one small table of parameters, and differ by a variable of the environment alone.
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
for m in 1 2 3 4; do task model m$m sh -c "MEMBER=$m python model.py > state$m"; done
task mean mean sh -c 'cat state? | sha256sum > sum'
S
traced bash flow.sh
