# shellcheck shell=bash source=tests/diagnosis/common.sh
# dd copies a file in pieces of 16 bytes.
. "$(dirname "$0")/../common.sh"
head -c 4000000 /dev/urandom > in
cat > flow.sh << 'S'
task cut cut dd if=in of=out bs=16 status=none
task sum sum sh -c 'sha256sum out > sum'
S
traced bash flow.sh
