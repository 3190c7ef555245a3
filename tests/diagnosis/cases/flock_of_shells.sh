# shellcheck shell=bash source=tests/diagnosis/common.sh
# Four shells compute under one flock(2): three wait at a time.
. "$(dirname "$0")/../common.sh"
cat > flow.sh << 'S'
for i in 1 2 3 4; do task update u$i flock table.lock sh -c "python burn.py 0.4; echo $i >> table" & done
wait
S
traced bash flow.sh
