# shellcheck shell=bash source=tests/diagnosis/common.sh
# Tasks that compute, and take a lock for the moment of one append.
. "$(dirname "$0")/../common.sh"
cat > add.sh << 'S'
python burn.py 0.6
flock index.lock sh -c "echo $1 >> index"
S
cat > flow.sh << 'S'
for i in 1 2; do task add a$i bash add.sh $i & done; wait
for i in 3 4; do task add a$i bash add.sh $i & done; wait
S
traced bash flow.sh
