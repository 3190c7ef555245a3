# shellcheck shell=bash source=tests/diagnosis/common.sh
# Four tasks each build the same sorted index of a table, in a file of their own, before they look something up in it.
. "$(dirname "$0")/../common.sh"
numbers 300000 4 > table.txt
cat > search.sh << 'S'
mkdir -p work/$1
sort -k3,3n -o work/$1/table.idx table.txt
grep -c "row $1" work/$1/table.idx > hits$1
S
cat > flow.sh << 'S'
for i in 1 2 3 4; do task search s$i bash search.sh $i; done
task join join sh -c 'cat hits? > all'
S
traced bash flow.sh
