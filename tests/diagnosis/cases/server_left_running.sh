# shellcheck shell=bash source=tests/diagnosis/common.sh
# A task starts a program in the background that writes on when the task is over.
. "$(dirname "$0")/../common.sh"
cat > monitor.sh << 'S'
for i in $(seq 30); do echo $i >> monitor.log; sleep 0.1; done
S
cat > flow.sh << 'S'
task measure measure sh -c 'bash monitor.sh & seq 1000 > m'
task use use sh -c 'python burn.py 1; cat m > n'
S
traced bash flow.sh
sleep 3
