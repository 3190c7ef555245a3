# shellcheck shell=bash source=tests/bench/remedies/common.sh
# A program has a transaction open while it fetches, others wait for the database; remedied: it fetches before.
. "$(dirname "$0")/common.sh"
sqlite3 results.db 'create table r(who, value)'
cat > store.py << 'P'
import sqlite3, subprocess, sys, time
c = sqlite3.connect("results.db", timeout=60, isolation_level=None)
fetch = lambda: subprocess.run(["sleep", "1.5"])
if sys.argv[1] == "before": fetch()
c.execute("begin immediate")
if sys.argv[1] == "inside": fetch()
c.executemany("insert into r values(?, ?)", [(sys.argv[2], i) for i in range(100)])
c.execute("commit")
end = time.process_time() + 0.5
while time.process_time() < end: pass
P
cat > as_is.sh << 'S'
for i in 1 2; do ./task store w$i python store.py inside $i & done
wait
./task sum sum sqlite3 results.db 'select sum(value) from r'
S
sed 's/inside/before/' as_is.sh > remedied.sh
