# shellcheck shell=bash source=tests/diagnosis/common.sh
# A task tries a port on which nobody listens, and sleeps between.
. "$(dirname "$0")/../common.sh"
cat > ask.py << 'P'
import socket, time
for _ in range(20):
    try:
        socket.create_connection(("127.0.0.1", 9)).close()
        break
    except OSError: time.sleep(0.1)
open("answer", "w").write("none\n")
P
cat > flow.sh << 'S'
task ask ask python ask.py
task use use sh -c 'cat answer > copy'
S
traced bash flow.sh
