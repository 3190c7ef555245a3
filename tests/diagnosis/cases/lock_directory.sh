# shellcheck shell=bash source=tests/diagnosis/common.sh
# Scripts take turns by mkdir and sleep.
. "$(dirname "$0")/../common.sh"
cat > step.sh << 'S'
until mkdir turn 2> /dev/null; do sleep 0.05; done
python burn.py 0.4
echo $1 >> order
rmdir turn
S
cat > flow.sh << 'S'
for i in 1 2 3 4; do task step s$i bash step.sh $i & done
wait
S
traced bash flow.sh
