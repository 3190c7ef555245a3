# shellcheck shell=bash source=tests/diagnosis/common.sh
# SQLite is asked 100,000 times, each time in a transaction of its own.
. "$(dirname "$0")/../common.sh"
python - << 'P'
import sqlite3
c = sqlite3.connect("genes.db")
c.execute("create table t(id integer primary key, name text)")
c.executemany("insert into t values(?, ?)", ((i, f"gene{i}") for i in range(100_000)))
c.commit()
P
cat > ask.py << 'P'
import sqlite3
c = sqlite3.connect("genes.db", isolation_level=None)
names = [c.execute("select name from t where id = ?", (i * 7919 % 100_000,)).fetchone()[0] for i in range(100_000)]
open("names.txt", "w").write("\n".join(names))
P
cat > flow.sh << 'S'
task ask ask python ask.py
S
traced bash flow.sh
