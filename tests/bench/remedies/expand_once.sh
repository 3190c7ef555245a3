# shellcheck shell=bash source=tests/bench/remedies/common.sh
# Six tasks each expand one .xz file to look for another word; remedied: a task expands it for all.
. "$(dirname "$0")/common.sh"
numbers 1200000 1 | xz -0 > words.xz
cat > as_is.sh << 'S'
for i in 1 2 3 4 5 6; do ./task search s$i sh -c "xz -dc words.xz | grep -c 'row $i' > hits$i"; done
./task join join sh -c 'cat hits* > all'
S
cat > remedied.sh << 'S'
./task expand expand sh -c "xz -dc words.xz > words"
for i in 1 2 3 4 5 6; do ./task search s$i sh -c "grep -c 'row $i' words > hits$i"; done
./task join join sh -c 'cat hits* > all'
S
