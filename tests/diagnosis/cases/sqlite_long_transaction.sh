# shellcheck shell=bash source=tests/diagnosis/common.sh
# One program has a transaction open while it computes; the others wait for the database.
. "$(dirname "$0")/../common.sh"
sqlite3 results.db 'create table r(who, value)'
cat > store.py << 'P'
import sqlite3, sys, time
c = sqlite3.connect("results.db", timeout=60, isolation_level=None)
c.execute("begin immediate")
end = time.process_time() + (1.2 if sys.argv[1] == "1" else 0.02)
while time.process_time() < end: pass
c.executemany("insert into r values(?, ?)", [(sys.argv[1], i) for i in range(100)])
c.execute("commit")
P
cat > flow.sh << 'S'
task store w1 python store.py 1 &
sleep 0.4
for i in 2 3; do task store w$i python store.py $i & done
wait
task sum sum sqlite3 results.db 'select sum(value) from r'
S
traced bash flow.sh
