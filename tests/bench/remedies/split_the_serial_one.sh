# shellcheck shell=bash source=tests/bench/remedies/common.sh
# Parts run two at a time, then a long task by itself; remedied: in two halves.
. "$(dirname "$0")/common.sh"
cat > part.sh << 'S'
./task part part$1 sh -c "python burn.py 0.4; numbers=20000; seq \$numbers > part$1"
S
cat > as_is.sh << 'S'
seq 4 | xargs -P 2 -L 1 bash part.sh
./task fit fit sh -c 'python burn.py 3; cat part1 part2 part3 part4 > fit'
S
cat > remedied.sh << 'S'
seq 4 | xargs -P 2 -L 1 bash part.sh
./task fit fit1 sh -c 'python burn.py 1.5; cat part1 part2 > fit1' &
./task fit fit2 sh -c 'python burn.py 1.5; cat part3 part4 > fit2'
wait
S
