# shellcheck shell=bash source=tests/diagnosis/common.sh
# Five tasks each expand one .xz file to look for another word.
. "$(dirname "$0")/../common.sh"
numbers 400000 1 | xz -0 > words.xz
cat > flow.sh << 'S'
for i in 1 2 3 4 5; do task search s$i sh -c "xz -dc words.xz | grep -c 'row $i' > hits$i"; done
task join join sh -c 'cat hits* > all'
S
traced bash flow.sh
