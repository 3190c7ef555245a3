# shellcheck shell=bash source=tests/diagnosis/common.sh
# A script leaves a monitor in the background, which has its pipe to tee open.
. "$(dirname "$0")/../common.sh"
cat > monitor.sh << 'S'
for i in 1 2 3 4; do echo "monitor $i"; sleep 1; done
S
cat > steps.sh << 'S'
bash monitor.sh &
python burn.py 1
numbers 20000 | sort > sorted
echo finished
S
declare -f numbers > functions.sh
traced bash -c '. ./functions.sh; export -f numbers; bash steps.sh | tee flow.log > copy.log; wc -l sorted > lines'
