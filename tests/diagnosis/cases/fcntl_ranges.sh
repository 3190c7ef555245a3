# shellcheck shell=bash source=tests/diagnosis/common.sh
# Three programs want the same range of a file; a fourth one another range, for which it need not wait.
. "$(dirname "$0")/../common.sh"
cat > update.py << 'P'
import fcntl, sys, time
with open("records", "r+b") as f:
    start = 0 if sys.argv[1] != "4" else 4096
    fcntl.lockf(f, fcntl.LOCK_EX, 100, start)
    end = time.process_time() + 0.4
    while time.process_time() < end: pass
    f.seek(start); f.write(b"%99d\n" % int(sys.argv[1])); f.flush()
P
head -c 8192 /dev/zero > records
cat > flow.sh << 'S'
for i in 1 2 3 4; do task update u$i python update.py $i & done
wait
S
traced bash flow.sh
