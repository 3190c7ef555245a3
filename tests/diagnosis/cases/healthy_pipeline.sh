# shellcheck shell=bash source=tests/diagnosis/common.sh
# awk, sort and join in a pipeline.
. "$(dirname "$0")/../common.sh"
numbers 300000 4 > a.txt; numbers 300000 5 > b.txt
cat > flow.sh << 'S'
task sort a sh -c 'sort a.txt > a.sorted' &
task sort b sh -c 'sort b.txt > b.sorted' &
wait
task join join sh -c 'join a.sorted b.sorted | awk "{ n[\$2]++ } END { for (k in n) print k, n[k] }" > joined'
S
traced bash flow.sh
