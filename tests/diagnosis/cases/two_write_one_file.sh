# shellcheck shell=bash source=tests/diagnosis/common.sh
# Two programs write the same bytes of one file at the same time.
. "$(dirname "$0")/../common.sh"
cat > put.py << 'P'
import os, sys, time
f = os.open("shared", os.O_RDWR | os.O_CREAT)
for i in range(20):
    os.pwrite(f, sys.argv[1].encode() * 10000, 0)
    time.sleep(0.02)
P
cat > flow.sh << 'S'
task put a python put.py a &
task put b python put.py b &
wait
S
traced bash flow.sh
