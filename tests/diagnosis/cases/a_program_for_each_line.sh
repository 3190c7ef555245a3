# shellcheck shell=bash source=tests/diagnosis/common.sh
# A shell loop starts three programs for each of 250 lines.
. "$(dirname "$0")/../common.sh"
cat > each.sh << 'S'
seq 250 | while read -r n; do echo $n | tr 1 2 | cut -c1 >> digits; /bin/true; done
S
cat > flow.sh << 'S'
task each each bash each.sh
task count count sh -c 'sort digits | uniq -c > counts'
S
traced bash flow.sh
