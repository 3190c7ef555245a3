# shellcheck shell=bash source=tests/diagnosis/common.sh
# A task starts its own server, waits until that listens, and uses it.
. "$(dirname "$0")/../common.sh"
cat > serve.py << 'P'
import asyncio, hashlib, time

async def answer(reader, writer):
    data = await reader.read(1_000_000)
    end = time.process_time() + 0.5
    while time.process_time() < end: pass
    writer.write(hashlib.sha256(data).hexdigest().encode())
    await writer.drain()
    writer.close()
    done.set()

async def main():
    global done
    done = asyncio.Event()
    server = await asyncio.start_unix_server(answer, "socket")
    async with server: await done.wait()

asyncio.run(main())
P
cat > ask.py << 'P'
import os, socket, subprocess, sys, time
server = subprocess.Popen([sys.executable, "serve.py"])
while not os.path.exists("socket"): time.sleep(0.05)
time.sleep(0.05)  # it is bound before it listens
s = socket.socket(socket.AF_UNIX)
s.connect("socket")
s.sendall(b"x" * 100_000); s.shutdown(socket.SHUT_WR)
open("answer", "wb").write(s.recv(1000))
server.wait()
P
cat > flow.sh << 'S'
task ask ask python ask.py
task use use sh -c 'python burn.py 0.5; cat answer > copy'
S
traced bash flow.sh
