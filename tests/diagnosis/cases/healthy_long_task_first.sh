# shellcheck shell=bash source=tests/diagnosis/common.sh
# Of nine tasks, two at a time, the longest one begins first, and both processors have work to the end.
. "$(dirname "$0")/../common.sh"
cat > flow.sh << 'S'
one() { task model model$1 sh -c "python burn.py $2; seq 100 > model$1.txt"; }
export -f one
{ echo 0 2; for i in 1 2 3 4 5 6 7 8; do echo $i 0.25; done; } | xargs -P 2 -L 1 bash -c 'one "$@"' one
S
traced bash flow.sh
