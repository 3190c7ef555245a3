"""Where in the program a call was made: of a call stack (docs/trace-format.md) the frame that is the user's.

    stack ──► frames ──► Python's innermost function of the user's files            ──► "file:line (function)"
                    └──► else the innermost frame outside of the system's libraries ──► addr2line ──► the same

Invariants: a native frame gets a name only from the file that was loaded when it was recorded (by build ID, else by
time of modification), and that may be opened (named_files.py: a run that was sent names any); another one, a file that
is not there, and a machine without addr2line leave it as `module+0xoffset`. What was found once is kept for the life of
the process.
"""

from __future__ import annotations

import os
import re
import shutil
import struct
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import BinaryIO, NamedTuple

from tailrace.analyzer.util import named_files

_PYTHON = re.compile(r"(?P<file>.*?)(?::(?P<line>\d+))? \((?P<function>[^()]*(?:\(.*\))?[^()]*)\)")
_NATIVE = re.compile(r"(?P<module>.*)\+0x(?P<offset>[0-9a-f]+) \[(?P<mark>t?[0-9a-f]*)\]")
_STANDARD = re.compile(r"/lib/python3(\.\d+)?/(?!site-packages/|dist-packages/)|^<")
_INSTALLED = re.compile(r"/(site|dist)-packages/")
_SYSTEM = re.compile(r"^(/usr)?/lib(32|64|x32)?/")
_RUNTIME = re.compile(
    r"/(ld-linux[^/]*|ld-musl[^/]*|lib(c|m|dl|pthread|rt|stdc\+\+|gcc_s|gfortran|gomp|quadmath|c\+\+|asan|tsan|tailrace)"
    r"([-.][^/]*)?\.so[^/]*)$"
)
_HEADERS = re.compile(r"^(/usr)?(/local)?/include/|/include/c\+\+/|^\?\?")
_KEPT = 100_000
_SECONDS = 120
"""For addr2line: a library with its debug information may have a gigabyte."""


class _Native(NamedTuple):
    module: str
    offset: int
    mark: str

    def __str__(self) -> str:
        return f"{self.module}+0x{self.offset:x}"


_known: tuple[dict[str, str], dict[str, str]] = ({}, {})
"""Of runs whose modules are not opened, and of those whose are."""
_places: dict[_Native, str] = {}


def callers(stacks: Iterable[str], opens: bool) -> Mapping[str, str]:
    """At least these stacks -> their callers, as `file:line (function)`, `module (function)` or `module+0xoffset`.

    opens: whether the modules that they name may be opened; else native frames are offsets.
    """
    known = _known[opens]
    unknown = [stack for stack in dict.fromkeys(stacks) if stack not in known]
    if len(known) + len(unknown) > _KEPT:
        known.clear()
        _places.clear()
    chosen = {stack: _chosen(stack) for stack in unknown}
    frames = {frame for frame in chosen.values() if isinstance(frame, _Native)}
    if opens:
        _find_places(frames - _places.keys())
    for stack, frame in chosen.items():
        known[stack] = frame if isinstance(frame, str) else _places[frame] if opens else _unnamed(frame)
    return known


def _unnamed(frame: _Native) -> str:
    return f"{frame.module}+0x{frame.offset + 1:x}"


def _chosen(stack: str) -> str | _Native:
    """The frame of a stack that is the user's."""
    lines = stack.split("\n")
    native = [_native(found) for line in lines if (found := _NATIVE.fullmatch(line))]
    python = [line for line in lines if not _NATIVE.fullmatch(line) and _PYTHON.fullmatch(line)]
    if python:
        own = [line for line in python if not _STANDARD.search(line)]
        return next((line for line in own if not _INSTALLED.search(line)), (own or python)[0])
    if not native:
        return stack
    own_native = [frame for frame in native if not (_SYSTEM.search(frame.module) or _RUNTIME.search(frame.module))]
    return (own_native or native)[0]


def _native(found: re.Match[str]) -> _Native:
    # The instruction before the one that the callee returns to is the call.
    return _Native(found["module"], int(found["offset"], 16) - 1, found["mark"])


def _find_places(frames: set[_Native]) -> None:
    modules: dict[tuple[str, str], list[_Native]] = defaultdict(list)
    for frame in frames:
        _places[frame] = _unnamed(frame)
        modules[frame.module, frame.mark].append(frame)
    tool = shutil.which("addr2line")
    for (module, mark), mine in modules.items():
        if tool is None or not mark or not module.startswith("/"):
            continue
        with suppress(OSError), named_files.open_named(module, trusted=True) as file:
            if mark != _mark(file, mark.startswith("t")):
                continue
            places = _addr2line(tool, module, file.fileno(), [frame.offset for frame in mine])
            _places.update({frame: place for frame, place in zip(mine, places, strict=False) if place})


def _addr2line(tool: str, module: str, descriptor: int, offsets: list[int]) -> list[str]:
    """The place of each offset in the module, which is open as this descriptor; "" where it is not known."""
    command = [tool, "-C", "-f", "-i", "-a", "-e", f"/proc/self/fd/{descriptor}"]
    # No server is asked for debug information.
    environment = {**os.environ, "LC_ALL": "C", "DEBUGINFOD_URLS": ""}
    asked = "".join(f"0x{offset:x}\n" for offset in offsets)
    try:
        done = subprocess.run(
            command, input=asked, capture_output=True, text=True, errors="replace", timeout=_SECONDS, env=environment,
            pass_fds=(descriptor,), check=False,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return []
    answers = re.split(r"^0x[0-9a-f]+\n", done.stdout, flags=re.MULTILINE)[1:]
    return [_place(module, answer.splitlines()) for answer in answers]


def _place(module: str, lines: list[str]) -> str:
    """Of functions and places in turns, those that were inlined first, the first one in the user's own files."""
    found = [
        (name, re.sub(r" \(discriminator \d+\)$", "", at)) for name, at in zip(lines[::2], lines[1::2], strict=False)
    ]
    for name, at in found:
        file, _, line = at.rpartition(":")
        if line.isdigit() and line != "0" and not _HEADERS.search(file):
            return f"{file}:{line} ({name})"
    names = [name for name, _ in found if name != "??"]
    return f"{module} ({names[-1]})" if names else ""


def _mark(file: BinaryIO, by_time: bool) -> str:
    """What distinguishes a module's file (core/src/linker/modules.h): its time of modification, or its build ID; "": it
    has none, or can't be read."""
    if by_time:
        return f"t{os.fstat(file.fileno()).st_mtime_ns:x}"
    with suppress(struct.error):
        return _build_id(file.read(1 << 16))[:16]
    return ""


def _build_id(head: bytes) -> str:
    """The build ID in the notes at the begin of a 64-bit ELF file of little endian, as hex."""
    if head[:6] != b"\x7fELF\x02\x01":
        return ""
    table, count = struct.unpack_from("<Q", head, 32)[0], struct.unpack_from("<H", head, 56)[0]
    for i in range(count):
        kind, _, offset, _, _, size = struct.unpack_from("<IIQQQQ", head, table + 56 * i)
        at, end = offset, offset + size
        while kind == 4 and at + 12 <= end:
            name, bytes_, note = struct.unpack_from("<III", head, at)
            text = at + 12 + (name + 3 & ~3)
            if note == 3 and head[at + 12 : at + 12 + name] == b"GNU\0":
                return head[text : text + bytes_].hex()
            at = text + (bytes_ + 3 & ~3)
    return ""
