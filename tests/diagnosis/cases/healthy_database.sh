# shellcheck shell=bash source=tests/diagnosis/common.sh
# SQLite: one transaction, an index, a query; the next task reads.
. "$(dirname "$0")/../common.sh"
cat > fill.py << 'P'
import sqlite3
c = sqlite3.connect("data.db")
c.execute("create table t(a integer, b text)")
c.executemany("insert into t values(?, ?)", ((i * 7919 % 1000003, f"row {i}") for i in range(300_000)))
c.execute("create index i on t(a)")
c.commit()
P
cat > flow.sh << 'S'
task fill fill python fill.py
task ask ask sh -c "sqlite3 data.db 'select count(*), sum(a) from t where a < 500000' > answer"
S
traced bash flow.sh
