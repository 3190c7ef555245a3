# shellcheck shell=bash source=tests/diagnosis/common.sh
# ls -l of a folder for a protocol beside the computing.
. "$(dirname "$0")/../common.sh"
mkdir inputs; (cd inputs && seq -f part%.0f 300 | xargs touch)
cat > flow.sh << 'S'
task list list sh -c "ls -l inputs > inputs.txt"
for i in 1 2; do task count count$i sh -c "python burn.py 1; wc -l < inputs.txt > count$i" & done
wait
S
traced bash flow.sh
