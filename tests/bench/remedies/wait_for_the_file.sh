# shellcheck shell=bash source=tests/bench/remedies/common.sh
# A task looks every 0.9 s for the file that another one makes beside it; remedied: it begins when that is over.
. "$(dirname "$0")/common.sh"
cat > as_is.sh << 'S'
./task use use sh -c 'until [ -e model ]; do sleep 0.9; done; python burn.py 0.5; wc -c < model > size' &
./task make make sh -c 'python burn.py 2; seq 50000 > m; mv m model'
wait
S
cat > remedied.sh << 'S'
./task make make sh -c 'python burn.py 2; seq 50000 > m; mv m model'
./task use use sh -c 'python burn.py 0.5; wc -c < model > size'
S
