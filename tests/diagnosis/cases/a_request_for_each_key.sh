# shellcheck shell=bash source=tests/diagnosis/common.sh
# 60,000 keys are set in a Redis server one by one: redis-cli reads commands and waits for each answer.
. "$(dirname "$0")/../common.sh"
numbers 60000 3 | awk '{ print "SET key" NR, $1 }' > commands
cat > load.sh << 'S'
redis-server --port 0 --unixsocket "$PWD/r.sock" --save "" --daemonize no > server.log &
until redis-cli -s r.sock ping 2> /dev/null | grep -q PONG; do sleep 0.05; done
redis-cli -s r.sock < commands > answers
redis-cli -s r.sock shutdown nosave
wait
S
traced sh load.sh
