# shellcheck shell=bash source=tests/bench/remedies/common.sh
# Four tasks compute under one flock(2); remedied: they compute first, and lock to write.
. "$(dirname "$0")/common.sh"
cat > as_is.sh << 'S'
for i in 1 2 3 4; do ./task update u$i flock table.lock sh -c "python burn.py 0.7; echo $i >> table" & done
wait
S
cat > remedied.sh << 'S'
for i in 1 2 3 4; do ./task update u$i sh -c "python burn.py 0.7; flock table.lock sh -c 'echo $i >> table'" & done
wait
S
