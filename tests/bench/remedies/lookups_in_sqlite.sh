# shellcheck shell=bash source=tests/bench/remedies/common.sh
# SQLite is asked 100,000 times, each time in a transaction of its own; remedied: in one.
. "$(dirname "$0")/common.sh"
cat > make.py << 'P'
import sqlite3
c = sqlite3.connect("genes.db")
c.execute("create table t(id integer primary key, name text)")
c.executemany("insert into t values(?, ?)", ((i, f"gene{i}") for i in range(100_000)))
c.commit()
P
python make.py
cat > ask.py << 'P'
import sqlite3, sys
c = sqlite3.connect("genes.db", isolation_level=None)
if sys.argv[1] == "once": c.execute("begin")
names = [c.execute("select name from t where id = ?", (i * 7919 % 100_000,)).fetchone()[0] for i in range(100_000)]
open("names.txt", "w").write("\n".join(names))
P
echo './task ask ask python ask.py each' > as_is.sh
echo './task ask ask python ask.py once' > remedied.sh
