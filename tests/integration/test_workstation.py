"""The programs of a workstation print the same and end alike traced and untraced, and their trace has no losses.

One row a program: what it is called, the programs that it needs, and a shell script that uses it. What differs from run
to run (numbers of processes, times, addresses) is taken out of both outputs, or out of the script.
"""

import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from support import sanitizer
from support.harm import Harm

Settle = Callable[[bytes], bytes]


def as_is(output: bytes) -> bytes:
    return output


def no_numbers(output: bytes) -> bytes:
    return re.sub(rb"0x[0-9a-f]+|[0-9]+", b"N", output)


@dataclass(frozen=True)
class Row:
    """A program of the table."""

    name: str
    needs: tuple[str, ...]
    script: str
    settle: Settle = as_is


def row(name: str, script: str, *, needs: str | None = None, settle: Settle = as_is) -> Row:
    return Row(name, tuple((needs or name).split()), script, settle)


HELLO_C = r"""printf '#include <stdio.h>\nint main(void) { puts("hello"); return 3; }\n' > a.c; """
HELLO_CC = r"""printf '#include <iostream>\nint main() { std::cout << "hello\\n"; return 3; }\n' > a.cc; """
PAGE = "printf '<p id=a>one</p><script>document.write(1+1)</script>' > page.html; "
SERVER = (
    "mkdir -p site; seq 20000 > site/file; exec 9>&1; "
    "python3 -u -m http.server -d site -b 127.0.0.1 0 > port 2> log & server=$!; "
    "for i in $(seq 1200); do grep -q port port && break; sleep 0.05; done; "
    "port=$(sed -E 's/.* port ([0-9]+) .*/\\1/' port); "
)
DATA = "seq 30000 > data; "

COMPILERS = [
    row("gcc", HELLO_C + "gcc -O2 -o a a.c && ./a"),
    row("g++", HELLO_CC + "g++ -O1 -o a a.cc && ./a"),
    row("clang", HELLO_C + "clang -O2 -o a a.c && ./a"),
    row("gfortran", "printf 'program a\\nprint *, 42\\nend program\\n' > a.f90; gfortran -o a a.f90 && ./a"),
    row("rustc", "printf 'fn main() { println!(\"hello\"); std::process::exit(3) }' > a.rs; rustc a.rs && ./a"),
    row(
        "go",
        'printf \'package main\\nimport "fmt"\\nfunc main() { fmt.Println("hello") }\\n\' > a.go; '
        "GOCACHE=$PWD/cache GOFLAGS=-mod=mod go run a.go",
    ),
    row(
        "javac",
        "echo 'class A { public static void main(String[] a) { System.out.println(42); } }' > A.java; "
        "javac A.java && java -Xshare:auto -cp . A",
        needs="javac java",
    ),
    row(
        "as-ld",
        "printf '.globl _start\\n_start: nop\\n' > a.s; as -o a.o a.s && ld -o a a.o && nm a | wc -l",
        needs="as ld",
    ),
    row(
        "cmake",
        "printf 'cmake_minimum_required(VERSION 3.10)\\nproject(a NONE)\\nmessage(STATUS one)\\n' > CMakeLists.txt;"
        " cmake -S . -B build | grep one",
    ),
    row("make", "printf 'all:\\n\\t@echo made $$((6*7))\\n' > Makefile; make -s"),
    row(
        "ninja",
        "printf 'rule c\\n command = cp $in $out\\nbuild b: c given\\n' > build.ninja; ninja > /dev/null; cat b",
    ),
    row("bison", "printf '%%%%\\ns: ;\\n%%%%\\n' > a.y; bison a.y 2>&1 | wc -l"),
    row("flex", "printf '%%%%\\na ;\\n%%%%\\n' > a.l; flex a.l && wc -l < lex.yy.c"),
]

RUN_TIMES = [
    row(
        "python3",
        'python3 -c \'import json, sqlite3, threading, subprocess as s; print(s.check_output(["echo", "a"]))\'',
    ),
    row("perl", 'perl -e \'print join(",", map { $_ * 2 } 1..5), "\\n"; open F, "given"; print <F>; exit 3\''),
    row("node", 'node -e \'console.log(require("fs").readFileSync("given", "utf8")); process.exitCode = 3\''),
    row("java", "java -Xshare:auto --version | wc -l"),
    row("ruby", "ruby -e 'puts File.read(\"given\"), `echo a`, [3, 1].sort.inspect; exit 3'"),
    row("lua", "lua -e 'for l in io.lines(\"given\") do print(l) end os.exit(3)'"),
    row("php", "php -r 'echo file_get_contents(\"given\"), array_sum([1, 2]); exit(3);'"),
    row("guile", "guile --no-auto-compile -c '(display (+ 1 2)) (newline) (exit 3)'"),
    row("tclsh", "echo 'set f [open given]; puts [read $f]; puts [exec echo a]; exit 3' > a.tcl; tclsh a.tcl"),
    row("Rscript", 'Rscript --vanilla -e \'cat(sum(1:10), readLines("given"), sep="\\n")\''),
    row("bash", "bash -c 'read -r line < given; echo $line | tr a-z A-Z; (exit 3)'"),
    row("zsh", "zsh -f -c 'read -r line < given; echo $line; echo a | cat; exit 3'"),
    row("fish", "HOME=$PWD fish --no-config -c 'cat given; echo (math 6 \\* 7); exit 3'"),
    row("dash", "dash -c 'while read -r l; do echo $l; done < given; exit 3'"),
    row("awk", DATA + "awk '{ s += $1 } END { print s }' data"),
    row("gawk", DATA + "gawk '{ s += $1; print s > \"sums\" } END { print s }' data; tail -1 sums"),
    row("m4", "echo 'define(a, b)a' | m4"),
]

DATABASES = [
    row(
        "redis",
        "redis-server --port 0 --unixsocket $PWD/socket --daemonize no --save '' --dir . > log & server=$!; "
        "for i in $(seq 1200); do [ -S socket ] && break; sleep 0.05; done; r='redis-cli -s socket'; "
        "$r set a 1; $r incr a; $r save; $r shutdown nosave; wait $server; echo $?; [ -s dump.rdb ] && echo dumped",
        needs="redis-server redis-cli",
    ),
    row("sqlite3", "sqlite3 db 'create table t(a); insert into t values (1), (2); select sum(a) from t; vacuum;'"),
    row(
        "postgres",
        "bin=$(ls -d /usr/lib/postgresql/*/bin | tail -1); cd $(mktemp -d); as=; "
        "if [ $(id -u) = 0 ]; then chown nobody .; as='setpriv --reuid=nobody --clear-groups'; fi; "
        "$as $bin/initdb -D $PWD/pg -A trust > log 2>&1; echo $?; "
        "echo 'create table t(a int); insert into t values (41); select a + 1 from t;' | "
        "$as $bin/postgres --single -D $PWD/pg postgres 2> /dev/null | grep -c 42; rm -rf $PWD",
        needs="/usr/lib/postgresql setpriv",
    ),
]

DEBUGGERS = [
    row(
        "gdb",
        HELLO_C + "gcc -g -o a a.c; gdb -q -batch -nx -ex 'break main' -ex run -ex next ./a | grep -c main",
        needs="gdb gcc",
    ),
    row("valgrind", HELLO_C + "gcc -g -o a a.c; valgrind -q ./a 2>&1", needs="valgrind gcc"),
    row("strace", "strace -f -o out sh -c 'cat given; exit 3'; echo $?; grep -c 'exited with 3' out"),
    row("ltrace", HELLO_C + "gcc -o a a.c; ltrace -o out ./a; echo $?", needs="ltrace gcc"),
    row(
        "objdump",
        HELLO_C + "gcc -c a.c; objdump -d a.o | grep -c '<main>'; readelf -h a.o | grep -c ELF",
        needs="objdump readelf gcc",
    ),
]

CONTAINERS = [
    row("bwrap", "bwrap --ro-bind / / --dev /dev --proc /proc --unshare-pid sh -c 'echo $$; cat given; exit 3'"),
    row("unshare", "unshare -Ur sh -c 'id -u; exit 3'"),
]

EDITORS = [
    row("vim", "vim -es -u NONE -c '%s/given/taken/' -c wq given < /dev/null; cat given"),
    row("ed", "printf 's/given/taken/\\nw\\nq\\n' | ed -s given; cat given"),
    row("sed", "sed -i s/given/taken/ given; cat given"),
    row("emacs", "emacs -Q --batch given --eval '(progn (insert \"new \") (save-buffer))' 2> /dev/null; cat given"),
    row("nano", "nano --version | wc -l"),
]

TOOLS = [
    row(
        "coreutils",
        DATA + "sort -rn data | uniq | head -3; wc data | awk '{print $1}'; sha256sum data; cp data b; cmp data b;"
        " dd if=data of=c bs=4k 2> /dev/null; shuf -n 5 data | wc -l; split -n 3 data part;"
        " cat part* | md5sum; tac data | tail -1;"
        " ln -s data l; readlink l; mkdir d; mv b d; ls d; du -a d | wc -l; comm data c | wc -l",
        needs="sort shuf split",
    ),
    row("findutils", "mkdir -p a/b; touch a/b/c; find . -name c | xargs ls", needs="find xargs"),
    row("grep", DATA + "grep -c 77 data; grep -r given ."),
    row(
        "git",
        "git init -q -b main; git -c user.name=a -c user.email=a@b commit -q --allow-empty -m one; git log --format=%s",
    ),
    row("rsync", DATA + "mkdir a b; cp data a; rsync -a a/ b/; cmp a/data b/data && echo same"),
    row("tar", DATA + "tar czf a.tgz data; tar tzf a.tgz; mkdir x; tar xzf a.tgz -C x; cmp data x/data && echo same"),
    row("gzip", DATA + "gzip -k data; gzip -dc data.gz | cmp - data && echo same"),
    row("bzip2", DATA + "bzip2 -k data; bzip2 -dc data.bz2 | cmp - data && echo same"),
    row("xz", DATA + "xz -T2 -k data; xz -dc data.xz | cmp - data && echo same"),
    row("zstd", DATA + "zstd -q -T2 data; zstd -q -dc data.zst | cmp - data && echo same"),
    row("zip", DATA + "zip -q a.zip data; unzip -p a.zip | cmp - data && echo same", needs="zip unzip"),
    row("cpio", "echo given | cpio -o 2> /dev/null | cpio -t 2> /dev/null"),
    row("curl", SERVER + "curl -s http://127.0.0.1:$port/file | sha256sum; kill $server", needs="curl python3"),
    row(
        "wget",
        SERVER + "wget -q -O got http://127.0.0.1:$port/file; sha256sum < got; kill $server",
        needs="wget python3",
    ),
    row(
        "openssl",
        "openssl genrsa -out key 2048 2> /dev/null; openssl req -x509 -new -key key -subj /CN=a -out crt;"
        " openssl verify -CAfile crt crt; openssl dgst -sha256 given",
    ),
    row(
        "gpg",
        "echo a | gpg --homedir . --batch --passphrase b --symmetric -o c 2> /dev/null; "
        "gpg --homedir . --batch --passphrase b -d c 2> /dev/null; gpgconf --homedir . --kill all",
    ),
    row("ssh-keygen", "ssh-keygen -q -t ed25519 -N '' -f key && ssh-keygen -lf key | wc -l"),
    row("jq", "echo '{\"a\": [1, 2]}' | jq -c '.a | add'"),
    row("bc", "echo '2^100' | bc"),
    row(
        "diff",
        "cp given b; echo x >> b; diff given b; diff -u given b | patch -R -s b; cat b; exit 3",
        needs="diff patch",
    ),
    row(
        "tmux",
        # A server without a session ends, also before the second command has reached it.
        "tmux -S ./s -f /dev/null new-session -d 'cat given > out; tmux -S ./s wait-for -S done; exec sleep 600'; "
        "timeout 120 tmux -S ./s wait-for done && tmux -S ./s kill-server; cat out",
        settle=no_numbers,
    ),
    row(
        "dpkg-deb",
        "mkdir -p p/DEBIAN; printf 'Package: a\\nVersion: 1\\nArchitecture: all\\nMaintainer: a\\nDescription: a\\n'"
        " > p/DEBIAN/control; dpkg-deb -b p a.deb > /dev/null; dpkg-deb -f a.deb Package",
    ),
]

MEDIA = [
    row(
        "ffmpeg",
        "ffmpeg -v error -f lavfi -i testsrc=d=1:s=64x64 -bitexact -threads 2 a.avi; "
        "ffprobe -v error -show_entries stream=width,height -of csv a.avi",
        needs="ffmpeg ffprobe",
    ),
    row(
        "convert",
        "convert -size 32x32 xc:red -resize 50% a.png; identify -format '%wx%h' a.png",
        needs="convert identify",
    ),
    row(
        "gs",
        "gs -q -dBATCH -sDEVICE=pdfwrite -o a.pdf -c '9 9 moveto 99 9 lineto stroke showpage'; head -c 4 a.pdf",
    ),
    row("dot", "echo 'digraph { a -> b }' | dot -Tplain | grep -c node"),
    row("groff", "printf '.TH A 1\\n.SH NAME\\na\\n' | groff -man -Tascii | grep -c NAME"),
]

BROWSERS = [
    row(
        "chromium",
        PAGE + "chromium --headless --no-sandbox --disable-gpu --user-data-dir=$PWD/profile --dump-dom "
        "file://$PWD/page.html 2> /dev/null",
    ),
]

ROWS = [*COMPILERS, *RUN_TIMES, *DATABASES, *DEBUGGERS, *CONTAINERS, *EDITORS, *TOOLS, *MEDIA, *BROWSERS]


def test_the_table_has_the_first_fifty() -> None:
    assert len({row.name for row in ROWS}) == len(ROWS) >= 50


@pytest.mark.skipif(bool(sanitizer.CHOSEN), reason="slow, and about the programs")
@pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])
def test_program(row: Row, harm: Harm) -> None:
    missing = [need for need in row.needs if not (Path(need).is_dir() or shutil.which(need))]
    if missing:
        pytest.skip(f"no {' and no '.join(missing)} here")
    done = harm("bash", "-c", row.script, same_files=False, settle=row.settle)
    if not done.stdout and row in CONTAINERS:
        pytest.skip(f"no {row.name} without user namespaces (chroot)")
    assert done.stdout, "the row shows nothing"
    assert not any(word in done.stderr for word in ("LOST", "recorded nothing", "torn")), done.stderr
