# shellcheck shell=bash source=tests/bench/remedies/common.sh
# dd copies a file in pieces of 16 bytes; remedied: of 1 MiB.
. "$(dirname "$0")/common.sh"
head -c 20000000 /dev/urandom > in
echo './task cut cut dd if=in of=out bs=16 status=none; ./task sum sum sh -c "sha256sum out > sum"' > as_is.sh
echo './task cut cut dd if=in of=out bs=1M status=none; ./task sum sum sh -c "sha256sum out > sum"' > remedied.sh
