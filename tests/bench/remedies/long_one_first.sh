# shellcheck shell=bash source=tests/bench/remedies/common.sh
# Of thirteen tasks, two at a time, the longest one begins last; remedied: it begins first.
. "$(dirname "$0")/common.sh"
cat > one.sh << 'S'
./task model model$1 sh -c "python burn.py $2; seq 100 > model$1.txt"
S
echo '{ seq -f "%.0f 0.3" 12; echo 13 2; } | xargs -P 2 -L 1 bash one.sh' > as_is.sh
echo '{ echo 13 2; seq -f "%.0f 0.3" 12; } | xargs -P 2 -L 1 bash one.sh' > remedied.sh
