# shellcheck shell=bash source=tests/bench/remedies/common.sh
# SQLite gets 2500 rows, a transaction for each; remedied: one for all.
. "$(dirname "$0")/common.sh"
echo 'create table r(a, b);' > each.sql
seq 2500 | sed "s/.*/insert into r values(&, 'value &');/" >> each.sql
{ echo 'begin;'; cat each.sql; echo 'commit;'; } > once.sql
echo './task store store sqlite3 results.db ".read each.sql"; ./task sum sum sqlite3 results.db "select sum(a) from r"' > as_is.sh
echo './task store store sqlite3 results.db ".read once.sql"; ./task sum sum sqlite3 results.db "select sum(a) from r"' > remedied.sh
