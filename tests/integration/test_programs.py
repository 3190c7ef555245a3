"""Everyday programs give the same output, exit status and files traced and untraced, and their trace has no losses.

What the programs do is in the tests, as short scripts; a program that isn't installed skips its test.
"""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.harm import Harm, Outcome, Program
from support.ordinary_user import ID, become, reach

GIVEN = len("given to the program\n")


def need(*programs: str) -> None:
    missing = [program for program in programs if shutil.which(program) is None]
    if missing:
        pytest.skip(f"no {' and no '.join(missing)} here")


def check_whole(done: Outcome) -> None:
    """The summary reports no loss."""
    assert not any(word in done.stderr for word in ("LOST", "recorded nothing", "torn")), done.stderr


def script(tmp_path: Path, name: str, text: str) -> Path:
    """A file with a program; it lies outside of the directories that are compared."""
    file = tmp_path / name
    file.write_text(text)
    return file


def no_numbers(output: bytes) -> bytes:
    return re.sub(rb"\d+", b"N", output)


# ---- tools ---------------------------------------------------------------------------------------------------------

GIT = """
set -e
git init -q -b main r; cd r
for i in 1 2 3 4 5; do seq $i 2000 > f$i; git add .; git commit -qm "c$i"; done
git checkout -qb side; echo s >> f1; git commit -qam side
git checkout -q main; echo m > g; git add g; git commit -qm m; git merge -q -m merged side
git tag v1; git gc -q; git fsck; git log --oneline --graph | cat; cd ..
git clone -q r c; git clone -q "file://$PWD/r" d; cd d
git rev-parse HEAD; git grep -c 19 | head -3; git diff HEAD~1 | wc -l; git archive HEAD | tar t
git blame f1 | tail -1; git bundle create -q ../b HEAD; git status --short
"""


def test_git(harm: Harm) -> None:
    need("git")
    who = {f"GIT_{role}_{what}": "a@b" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    when = {f"GIT_{role}_DATE": "2020-01-01T00:00:00Z" for role in ("AUTHOR", "COMMITTER")}
    # The index and the pack's reverse index hold times of files.
    done = harm(
        "sh", "-c", GIT, env={**who, **when, "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"}, same_files=False
    )
    check_whole(done)


MAKE = r"""
set -e
for i in $(seq 20); do
  printf '#include "h.h"\nint f%s(int x) { return x + %s; }\n' $i $i > s$i.c; echo "int f$i(int);" >> h.h
done
printf '#include <stdio.h>\n#include "h.h"\nint main() { printf("%%d\\n", f1(2) + f20(3)); }\n' > main.c
printf 'S=$(wildcard *.c)\nprog: $(S:.c=.o)\n\t$(CC) -o $@ $^\n%%.o: %%.c h.h\n\t@$(CC) -c -o $@ $<\n' > Makefile
make -s -j2; ./prog; touch h.h; make -s -j2; make -q && echo up to date; ar rcD l.a s*.o; ar t l.a | wc -l
"""


def test_make_with_jobs(harm: Harm) -> None:
    need("make", "cc", "ar")
    check_whole(harm("sh", "-c", MAKE))


TEXT_TOOLS = """
mkdir a; for i in $(seq 50); do seq $i 1000 > a/$i; done
tar cf - --mtime=@0 --sort=name --owner=0 --group=0 a | gzip -n | tee x.tgz | cksum
mkdir o; tar xzf x.tgz -C o
find o -type f | sort | xargs -P2 -n5 wc -c | awk '{ s += $1 } END { print s }'
find . -name '1*' -exec grep -l 999 {} + | sort | head -3
cat a/* | sort -n | uniq -c | sort -rn | sed -n 5p
cp -a a b; diff -r a b && echo the same; split -b 1000 a/1 sp.; paste a/1 a/2 | cut -f1 | tail -1
dd if=a/1 of=dd conv=notrunc,fsync bs=7 status=none; cmp dd a/1; truncate -s 10 dd; stat -c %s dd
install -m 600 dd dd2; ln dd hard; ln -s dd soft; readlink soft; mv dd2 dd3; rm -rf b
od -c dd | head -1; tail -c 4 dd; tac a/1 | head -1; shuf -n 3 --random-source=a/1 a/1
sort -S 1k -T . -n a/50 | tail -1
"""


def test_pipes_of_tools(harm: Harm) -> None:
    need("tar", "gzip", "awk", "xargs")
    check_whole(harm("sh", "-c", TEXT_TOOLS))


def test_rsync(harm: Harm) -> None:
    need("rsync")
    # rsync compares file times by the second, so the time is set.
    lines = (
        "mkdir a; for i in 1 2 3; do seq $i 3000 > a/$i; done; rsync -a a/ b; echo more >> a/1; touch -d @1000000 a/1; "
        "rsync -aci a/ b; ls b"
    )
    check_whole(harm("sh", "-c", lines))


SQL = """
pragma journal_mode=wal; create table t(a, b);
with recursive c(i) as (select 1 union all select i + 1 from c where i < 5000) insert into t select i, hex(i) from c;
create index x on t(b); delete from t where a % 3 = 0; vacuum; select count(*), sum(a) from t;
pragma wal_checkpoint(truncate); pragma integrity_check; .backup copy
"""


def test_sqlite_with_a_log(harm: Harm) -> None:
    need("sqlite3")
    # The log's index has a salt.
    done = harm("sh", "-c", f"sqlite3 data '{SQL}' && sqlite3 copy .dump", unlike=("data-shm",))
    check_whole(done)


# ---- shells and interpreters ---------------------------------------------------------------------------------------

BASH = """
exec 5<>f; echo hi >&5; exec 5>&-
coproc C { read x; echo "got $x"; read x; }; echo line >&${C[1]}; read y <&${C[0]}; echo $y; echo over >&${C[1]}
diff <(echo a) <(echo b); cat <<< here; (sleep 0.1; echo behind) & wait
set -m; sleep 5 & jobs | cut -c1-12; kill %1; wait %1; echo $?
trap 'echo trapped' USR1; kill -USR1 $$
mapfile -t lines < given; echo ${#lines[@]}; exec 3< given; read -u 3 z; echo $z
while read l; do echo "$l"; done < given | tee t | cat -A; echo ${PIPESTATUS[@]}
ls /proc/self/fd | wc -l; env | grep -v '^_=' | sort; ulimit -n; exit 9
"""


def test_bash(harm: Harm) -> None:
    need("bash")
    check_whole(harm("bash", "-c", BASH))


PERL = r"""
open(F, ">", "o"); print F "x" x 9999; close F; open(F, "<", "o"); local $/; print length(<F>), "\n";
open(P, "-|", "cat given"); print <P>; close P; system("exit 3"); print $? >> 8, "\n";
if (my $p = fork) { waitpid $p, 0; print $?, "\n" } else { open(G, ">>", "o"); print G "c"; exit 2 }
print `wc -c < o`; opendir D, "."; print join(",", sort readdir D), "\n"; rename "o", "q"; print -s "q", "\n";
sysopen(S, "q", 2); sysseek(S, 5, 0); syswrite(S, "abc"); print sysseek(S, 0, 1), "\n";
print join ",", sort grep { $_ ne "_" } keys %ENV; exec "sh", "-c", "echo end; exit 4";
"""


def test_perl(harm: Harm) -> None:
    need("perl")
    check_whole(harm("perl", "-e", PERL))


AWK = """BEGIN {
  while ((getline l < "given") > 0) print l; "echo from a command" | getline d; print d > "y"; close("y")
  print "z" | "cat 1>&2"; system("echo sys"); printf "a\\nb\\n" | "sort -r"; exit 3
}"""


def test_awk(harm: Harm) -> None:
    need("awk")
    check_whole(harm("awk", AWK, same_stderr=True))


NODE = """
const fs = require('fs'), cp = require('child_process');
const { Worker, isMainThread, parentPort } = require('worker_threads');
if (process.argv[2] === 'child') {
  process.send('forked'); process.disconnect();
} else if (!isMainThread) {
  fs.writeFileSync('worker', 'from a worker'); parentPort.postMessage(fs.readFileSync('worker').length);
} else (async () => {
  fs.writeFileSync('sync', 'x'.repeat(10000)); console.log(fs.readFileSync('sync').length, fs.statSync('sync').size);
  await fs.promises.writeFile('async', 'y'.repeat(20000)); console.log((await fs.promises.readFile('async')).length);
  await Promise.all([...Array(50).keys()].map(i => fs.promises.writeFile('f' + i, 'z'.repeat(i * 10))));
  console.log((await fs.promises.readdir('.')).length);
  await new Promise(r => fs.createReadStream('async').pipe(fs.createWriteStream('piped')).on('finish', r));
  fs.copyFileSync('sync', 'copied'); fs.renameSync('copied', 'renamed');
  console.log(String(cp.execSync('cat given | tr a-z A-Z')), cp.spawnSync('sh', ['-c', 'exit 9']).status);
  await new Promise(r => cp.fork(__filename, ['child']).on('message', m => console.log(m)).on('exit', r));
  await new Promise(r => new Worker(__filename).on('message', m => console.log('worker', m)).on('exit', r));
  console.log(Object.keys(process.env).filter(k => k != '_').sort().join()); process.exitCode = 6;
})();
"""


def test_node(harm: Harm, tmp_path: Path) -> None:
    need("node")
    check_whole(harm("node", script(tmp_path, "program.js", NODE)))


JAVA = """
import java.io.*; import java.nio.*; import java.nio.channels.*; import java.nio.file.*; import java.util.*;
import java.util.concurrent.*;
public class Program { public static void main(String[] a) throws Exception {
  Files.writeString(Path.of("text"), "hello\\n".repeat(1000));
  var W = StandardOpenOption.WRITE; var C = StandardOpenOption.CREATE;
  try (var c = FileChannel.open(Path.of("chan"), C, StandardOpenOption.READ, W)) {
    c.write(ByteBuffer.wrap("channel".getBytes()));
    c.write(new ByteBuffer[] {ByteBuffer.wrap("a".getBytes()), ByteBuffer.wrap("b".getBytes())});
    MappedByteBuffer m = c.map(FileChannel.MapMode.READ_WRITE, 0, 4096); m.put(100, (byte) 'x'); m.force();
    try (var d = FileChannel.open(Path.of("copy"), C, W)) { c.transferTo(0, c.size(), d); }
    try (FileLock l = c.lock()) { System.out.println("locked " + l.isValid()); } }
  try (var r = new RandomAccessFile("raf", "rw")) { r.seek(10); r.writeInt(7); r.setLength(20); }
  Process p = new ProcessBuilder("sh", "-c", "cat; echo err >&2; exit 4").redirectError(new File("err")).start();
  try (OutputStream o = p.getOutputStream()) { o.write("to the child\\n".getBytes()); }
  System.out.print(new String(p.getInputStream().readAllBytes())); System.out.println(p.waitFor());
  var e = Executors.newFixedThreadPool(8); List<Future<Integer>> f = new ArrayList<>();
  for (int i = 0; i < 100; i++) { int k = i; f.add(e.submit(() -> {
    Path q = Path.of("t" + k); Files.write(q, new byte[k * 100]); return Files.readAllBytes(q).length; })); }
  int s = 0; for (var x : f) s += x.get(); e.shutdown(); System.out.println(s);
  try (var d = Files.walk(Path.of("."))) { System.out.println(d.count()); }
  System.out.println(new TreeMap<>(System.getenv()).keySet().stream().filter(k -> !k.equals("_")).toList()); } }
"""


def test_java(harm: Harm, tmp_path: Path) -> None:
    need("java")
    check_whole(harm("java", script(tmp_path, "Program.java", JAVA)))


POOLS = """
import asyncio, concurrent.futures, multiprocessing, os, sys
from multiprocessing import shared_memory

def square(i):
    with open(f"p{i}", "w") as f:
        f.write("x" * i)
    return i * i

async def talk():
    p = await asyncio.create_subprocess_exec("sh", "-c", "cat given; cat; exit 3", stdin=-1, stdout=-1)
    print(await p.communicate(b"to the child"), p.returncode)
    ps = [await asyncio.create_subprocess_shell(f"echo {i}", stdout=-1) for i in range(20)]
    print([(await p.communicate())[0] for p in ps])
    print(await asyncio.get_running_loop().run_in_executor(None, square, 5))
    async def echo(r, w):
        w.write(await r.read(5)); await w.drain(); w.close()
    server = await asyncio.start_unix_server(echo, "socket")
    r, w = await asyncio.open_unix_connection("socket")
    w.write(b"hello"); print(await r.read()); w.close(); server.close(); os.unlink("socket")

if __name__ == "__main__":
    asyncio.run(talk())
    for method in ("fork", "spawn", "forkserver"):
        context = multiprocessing.get_context(method)
        with context.Pool(3) as pool:
            print(method, sum(pool.map(square, range(50))))
        queue = context.Queue()
        process = context.Process(target=queue.put, args=("put",))
        process.start(); print(queue.get()); process.join(); print(process.exitcode)
    with concurrent.futures.ProcessPoolExecutor(2) as pool:
        print(sum(pool.map(square, range(20))))
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        print(sum(pool.map(square, range(200))))
    memory = shared_memory.SharedMemory(create=True, size=100)
    memory.buf[0] = 7; print(shared_memory.SharedMemory(memory.name).buf[0]); memory.unlink()
    sys.exit(5)
"""


def test_python_pools_and_subprocesses(harm: Harm, tmp_path: Path) -> None:
    check_whole(harm(sys.executable, script(tmp_path, "pools.py", POOLS)))


HDF5 = """
import h5py, numpy as np
a = np.arange(200000.0).reshape(500, 400)
with h5py.File("a.h5", "w") as f:
    f.create_dataset("x", data=a, chunks=(50, 40), compression="gzip"); f.attrs["k"] = 3
with h5py.File("a.h5", "r+") as f:
    f["x"][3:5] = 1; f.create_group("g")["z"] = np.ones(1000); print(f["x"][...].sum(), list(f), f.attrs["k"])
with h5py.File("b.h5", "w", driver="core") as f:
    f["a"] = 1
with h5py.File("c.h5", "w", libver="latest") as f:
    d = f.create_dataset("s", (0,), maxshape=(None,), dtype="i8"); f.swmr_mode = True
    for i in range(10):
        d.resize((i + 1,)); d[i] = i; d.flush()
np.save("n.npy", a); m = np.load("n.npy", mmap_mode="r+"); m[0, 0] = 5; m.flush(); print(m.sum())
a.tofile("raw"); print(np.fromfile("raw").sum(), np.memmap("raw", dtype="f8")[7])
np.savetxt("t", a[:3]); print(np.loadtxt("t").sum())
"""


def test_hdf5_and_numpy(harm: Harm) -> None:
    pytest.importorskip("h5py")
    check_whole(harm(sys.executable, "-c", HDF5))


# ---- debuggers -----------------------------------------------------------------------------------------------------


def test_gdb(harm: Harm) -> None:
    need("gdb")
    command = ["gdb", "-q", "-nx", "-batch", "-ex", "break exit", "-ex", "run", "-ex", "bt 1", "-ex", "continue"]
    done = harm(*command, "--args", "cat", "given", settle=no_numbers)
    assert "given to the program" in done.stdout
    check_whole(done)


def test_valgrind(harm: Harm) -> None:
    need("valgrind")
    command = ["valgrind", "-q", "--error-exitcode=9"]
    check_whole(harm(*command, "cat", "given", same_stderr=True))


def test_strace(harm: Harm) -> None:
    need("strace")
    check_whole(harm("strace", "-f", "-o", "/dev/null", "cat", "given", same_stderr=True))


# ---- how a program is started --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command",
    [
        "env -i {cat} given",
        "setsid -w cat given",
        "nohup cat given",
        "timeout 9 cat given",
        "timeout 0.3 sleep 9",
        "nice -n 1 cat given",
        "stdbuf -o0 cat given",
        "script -q -e -c 'stty -a | head -c 5; cat given; exit 3' /dev/null",
        "setpriv --no-new-privs cat given",
        "flock given cat given",
        "prlimit --cpu=5 cat given",
    ],
)
def test_started_by(harm: Harm, command: str) -> None:
    need(command.split()[0])
    words = command.format(cat=shutil.which("cat"))
    check_whole(harm("sh", "-c", words, same_stderr=True))


@pytest.mark.parametrize(
    "limits",
    [
        "ulimit -n 4; cat given; cat < given > f; /bin/echo x",
        "ulimit -v 20000; cat given; for i in 1 2 3; do cp given c$i; done; ls",
        "ulimit -s 64; cat given; ls",
        "ulimit -f 8; dd if=/dev/zero of=big bs=100 count=1000 2> /dev/null; echo $?; cat given",
        "ulimit -l 0; ulimit -c 0; cat given",
    ],
)
def test_small_limits(harm: Harm, limits: str) -> None:
    need("bash")
    harm("bash", "-c", limits)


@pytest.mark.parametrize(
    "how",
    [
        "unshare -m sh -c 'mount -t tmpfs none /mnt && echo hi > /mnt/f && cat /mnt/f'",
        "unshare -m sh -c 'mount -t tmpfs none /dev/shm && echo hi > f && cat f'",
        "unshare -p -f sh -c 'echo $$ > f; cat f; cat f f > g'",
        "unshare -U -r sh -c 'id -u; echo hi > f; cat f'",
        f"{shlex.join(become())} sh -c 'id -u; for i in 1 2 3; do /bin/echo $i; done'",
        f"cp $(command -v cat) own; chmod 4755 own; ./own given > o; setpriv --reuid {ID} ./own /dev/null; rm own",
    ],
    ids=["mounts", "shm", "pids", "users", "nobody", "setuid"],
)
@pytest.mark.root("makes namespaces and other users' processes")
def test_namespaces_and_other_users(harm: Harm, how: str, tmp_path: Path) -> None:
    need("unshare", "setpriv")
    if subprocess.run(["unshare", "-m", "-p", "-f", "true"], check=False, capture_output=True).returncode:
        pytest.skip("this machine gives no namespaces")
    harm("sh", "-c", how, same_stderr=True, prefix=reach(tmp_path) if "--reuid" in how else ())


@pytest.fixture
def jail(tmp_path: Path) -> Path:
    """A root directory with a shell and cat, and nothing of ours."""
    need("bash", "cat", "ldd")
    root = tmp_path / "jail"
    programs = [str(shutil.which(name)) for name in ("bash", "cat")]
    libraries = subprocess.run(["ldd", *programs], check=True, capture_output=True, text=True).stdout
    for file in [*programs, *re.findall(r"/[^\s:]+(?=\s\()", libraries)]:
        place = root / file.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, place)
    return root


def test_a_root_without_the_library(harm: Harm, jail: Path) -> None:
    bash, cat = str(shutil.which("bash")), shutil.which("cat")
    harm("chroot", jail, bash, "-c", f"echo hello > x; {cat} x; {cat} x | {cat}; declare -x", same_stderr=True)


def test_static_programs_and_what_they_start(harm: Harm, tmp_path: Path) -> None:
    need("cc")
    source = script(
        tmp_path, "static.c", '#include <unistd.h>\nint main() { execlp("cat", "cat", "given", (char *)0); }'
    )
    if subprocess.run(
        ["cc", "-static", "-o", tmp_path / "static", source], check=False, capture_output=True
    ).returncode:
        pytest.skip("nothing can be linked statically here")
    done = harm(tmp_path / "static")
    assert done.seen.read(done.work / "given") == GIVEN


# ---- cancelled threads, crowds ------------------------------------------------------------------


def test_cancellation(harm: Harm, program: Program) -> None:
    done = harm(program("cancels"))
    done.check_written("after")


def test_a_command_whose_waiter_is_cancelled_ends(harm: Harm, program: Program) -> None:
    assert harm(program("cancels"), "system").stdout == "running 0, ignored 0\n"


@pytest.mark.parametrize(("kind", "number"), [("together", 1000), ("one_by_one", 3000), ("children", 500)])
def test_crowds(harm: Harm, program: Program, kind: str, number: int) -> None:
    done = harm(program("crowd"), kind, str(number))
    check_whole(done)
    done.check_written("out")


def test_images_that_replace_each_other_while_threads_begin(harm: Harm, program: Program) -> None:
    done = harm(program("crowd"), "images", "200", same_files=False)
    assert done.stdout.endswith("last\n")
    check_whole(done)
    assert "still running" not in done.stderr
    assert len(done.seen.named("execve")) == 200


FULL_TABLE = """
import os, resource, sys, threading
resource.setrlimit(resource.RLIMIT_NOFILE, (64, int(sys.argv[1])))
zero = os.open("/dev/zero", os.O_RDONLY)
try:
    while True:
        os.dup(zero)
except OSError:
    pass
def read():
    for i in range(10000):
        os.read(zero, 1)
thread = threading.Thread(target=read)
thread.start()
read()
thread.join()
print(sorted(os.readlink(f"/proc/self/fd/{i}") for i in range(3, 64)) == ["/dev/zero"] * 61)
"""


@pytest.mark.parametrize("hard_limit", ["256", "64"])
def test_no_descriptor_is_left(harm: Harm, hard_limit: str) -> None:
    done = harm(sys.executable, "-S", "-E", "-c", FULL_TABLE, hard_limit)
    check_whole(done)
    assert done.seen.read(Path("/dev/zero")) == 20000
