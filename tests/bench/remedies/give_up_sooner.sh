# shellcheck shell=bash source=tests/bench/remedies/common.sh
# A task tries a port on which nobody listens twenty times, and sleeps between; remedied: three times.
. "$(dirname "$0")/common.sh"
cat > ask.py << 'P'
import socket, sys, time
for _ in range(int(sys.argv[1])):
    try:
        socket.create_connection(("127.0.0.1", 9)).close()
        break
    except OSError: time.sleep(0.1)
open("answer", "w").write("none\n")
P
echo './task ask ask python ask.py 20; ./task use use sh -c "python burn.py 0.5; cat answer > copy"' > as_is.sh
echo './task ask ask python ask.py 3; ./task use use sh -c "python burn.py 0.5; cat answer > copy"' > remedied.sh
