# shellcheck shell=bash source=tests/diagnosis/common.sh
# A compressed table is expanded as a whole into a temporary file, of which the next task reads the first lines.
. "$(dirname "$0")/../common.sh"
numbers 900000 5 | gzip -1 > table.gz
cat > flow.sh << 'S'
task expand expand sh -c 'gzip -dc table.gz > table.tmp'
task sample sample sh -c 'head -n 1000 table.tmp > sample'
task tidy tidy rm table.tmp
S
traced bash flow.sh
