# shellcheck shell=bash source=tests/bench/remedies/common.sh
# A shell starts programs for each of 800 lines; remedied: one awk for all lines.
. "$(dirname "$0")/common.sh"
seq 800 > lines
cat > as_is.sh << 'S'
./task each each sh -c 'while read -r n; do echo $n | tr 1 2 | cut -c1 >> digits; done < lines'
./task count count sh -c 'sort digits | uniq -c > counts'
S
cat > remedied.sh << 'S'
./task each each sh -c "awk '{ gsub(1, 2); print substr(\$0, 1, 1) }' lines > digits"
./task count count sh -c 'sort digits | uniq -c > counts'
S
