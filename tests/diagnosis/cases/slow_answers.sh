# shellcheck shell=bash source=tests/diagnosis/common.sh
# A task reads of a server outside of the run that answers slowly.
. "$(dirname "$0")/../common.sh"
cat > serve.py << 'P'
import socket, time
s = socket.socket()
s.bind(("127.0.0.1", 0))
s.listen()
open("port", "w").write(str(s.getsockname()[1]))
c, _ = s.accept()
for _ in range(20):
    c.sendall(b"x" * 50_000)
    time.sleep(0.1)
c.close()
P
python serve.py & server=$!
while [ ! -s port ]; do sleep 0.1; done
cat > fetch.py << 'P'
import socket
s = socket.create_connection(("127.0.0.1", int(open("port").read())))
with open("answer", "wb") as f:
    while part := s.recv(65536): f.write(part)
P
cat > flow.sh << 'S'
task fetch fetch python fetch.py
task use use sh -c 'sha256sum answer > sum'
S
traced bash flow.sh
kill $server 2> /dev/null
