# shellcheck shell=bash source=tests/diagnosis/common.sh
# Of twelve tasks, two at a time, the longest one begins last.
. "$(dirname "$0")/../common.sh"
cat > flow.sh << 'S'
one() { task model model$1 sh -c "python burn.py $2; seq 100 > model$1.txt"; }
export -f one
{ for i in 1 2 3 4 5 6 7 8 9 10 11; do echo $i 0.2; done; echo 12 2; } | xargs -P 2 -L 1 bash -c 'one "$@"' one
S
traced bash flow.sh
