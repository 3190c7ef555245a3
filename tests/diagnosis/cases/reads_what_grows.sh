# shellcheck shell=bash source=tests/diagnosis/common.sh
# A consumer is started beside its producer, and reads the file while it grows.
. "$(dirname "$0")/../common.sh"
cat > grow.py << 'P'
import time
with open("data", "w", buffering=1) as f:
    for i in range(20):
        f.write(f"{i}\n" * 500)
        f.flush()
        time.sleep(0.03)
P
cat > flow.sh << 'S'
task grow grow python grow.py &
sleep 0.3
task use use sh -c 'sort data > sorted'
wait
S
traced bash flow.sh
