# shellcheck shell=bash source=tests/diagnosis/common.sh
# Two tasks at a time sort into a scratch file of the same name, and read it; each begins with its own.
. "$(dirname "$0")/../common.sh"
numbers 5000 3 > in.a
numbers 5000 4 > in.b
cat > sorted.sh << 'S'
sort "in.$1" > sorted.tmp
sleep 0.2
awk 'NR % 3 == 0' sorted.tmp > "out.$1"
S
cat > flow.sh << 'S'
for one in a b; do task sort "$one" bash sorted.sh "$one" & done
wait
S
traced bash flow.sh
