# shellcheck shell=bash source=tests/diagnosis/common.sh
# A script without tasks sleeps longer and longer until a server of its own answers.
. "$(dirname "$0")/../common.sh"
cat > serve.py << 'P'
import runpy, socket, sys
sys.argv[1:] = ["1.5"]
runpy.run_path("burn.py")
with socket.create_server(("127.0.0.1", 18479)) as server:
    peer, _ = server.accept()
    peer.sendall(peer.recv(100).upper())
P
cat > ask.py << 'P'
import socket, sys
try:
    server = socket.create_connection(("127.0.0.1", 18479))
except OSError:
    sys.exit(1)
server.sendall(b"chr1")
print(server.recv(100))
P
cat > flow.sh << 'S'
python serve.py &
pause=1
until python ask.py > answer; do sleep $pause; pause=$((2 * pause)); done
wait
S
traced bash flow.sh
