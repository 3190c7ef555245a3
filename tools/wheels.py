#!/usr/bin/env python3
"""Makes the portable wheels: manylinux_2_28 for x86_64 and aarch64, on any x86_64 Linux.

    python tools/wheels.py [--architecture x86_64] [--python 3.12 ...] [--sdist] [--output dist]

The compiler is Zig's, a package of PyPI with the headers and symbol versions of every glibc. One wheel for each of
CPython 3.10 and 3.11, and one for 3.12 and every later version (the stable ABI). It needs those three Pythons (PATH,
pyenv or uv), nasm, advzip, and binutils for the other architecture (Debian: nasm advancecomp
binutils-aarch64-linux-gnu). What it takes from PyPI is named, with versions and hashes, in packaging/wheels. A second
run compiles what changed, in --work.

Debug information goes to OUTPUT/debug, one archive a wheel: FILE.debug of each, which a debugger finds beside its FILE.

Rejected: the image of an old system, one more thing to have for each architecture. What glibc has newer than 2.28 the
core asks for when it runs. The wheels have no plugin of Flux or Slurm, which are built against the site's headers:
declarations of our own would be compared with these by nobody.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RECIPE = ROOT / "packaging" / "wheels"
GLIBC = "2.28"
ARCHITECTURES = ("x86_64", "aarch64")
# The last one's wheel is for the stable ABI.
PYTHONS = ("3.10", "3.11", "3.12")
# 1 MB is Python; both _native and libtailrace-plugin.so have the launcher, the sealer and a C++ runtime.
MOST_BYTES = 2_500_000


def run(*command: str | Path, env: dict[str, str] | None = None, cwd: Path | None = None) -> str:
    done = subprocess.run([str(word) for word in command], env=env, cwd=cwd, capture_output=True, text=True)
    if done.returncode != 0:
        words = " ".join(str(word) for word in command)
        sys.exit(f"wheels.py: {words} ended with {done.returncode}:\n{done.stdout[-6000:]}{done.stderr[-6000:]}")
    return done.stdout


def needed(program: str, package: str) -> str:
    found = shutil.which(program)
    if found is None:
        sys.exit(f"wheels.py: {program} is missing: apt-get install {package}")
    return found


def find_python(version: str) -> Path:
    """An interpreter of `version` with its headers."""
    candidates = [*Path.home().glob(f".pyenv/versions/{version}.*/bin/python")]
    candidates += Path.home().glob(f".local/share/uv/python/cpython-{version}.*/bin/python3")
    if (on_path := shutil.which(f"python{version}")) is not None:
        candidates.append(Path(on_path))
    ask = "import pathlib, sys, sysconfig; print('%d.%d' % sys.version_info[:2], "
    ask += "(pathlib.Path(sysconfig.get_path('include')) / 'Python.h').exists())"
    for path in candidates:
        done = subprocess.run([path, "-c", ask], capture_output=True, text=True)
        if done.stdout.split() == [version, "True"]:
            return path
    sys.exit(f"wheels.py: no Python {version} with headers in PATH, pyenv or uv: uv python install {version}")


def script(path: Path, *command: str | Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    words = " ".join(f"'{word}'" for word in command)
    path.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
    path.chmod(0o755)
    return path


@dataclass(frozen=True)
class Tools:
    """The environment that the wheels are built with, and the compiler for one architecture."""

    work: Path
    architecture: str

    @property
    def bin(self) -> Path:
        return self.work / "tools" / "bin"

    @property
    def prefix(self) -> Path:
        """Where the bundled libraries are installed."""
        return self.work / self.architecture / "prefix"

    def make(self) -> None:
        if not (self.bin / "pyproject-build").exists():
            run(sys.executable, "-m", "venv", self.bin.parent)
            run(self.bin / "pip", "install", "-q", "-r", RECIPE / "tools.txt", "-r", RECIPE / "python.txt")
        for name in ("cc", "c++", "ar", "ranlib"):
            target = ("-target", f"{self.architecture}-linux-gnu.{GLIBC}") if name in ("cc", "c++") else ()
            script(self.compiler(name), self.bin / "python", "-m", "ziglang", name, *target)

    def compiler(self, name: str) -> Path:
        return self.work / self.architecture / "bin" / name

    def environment(self) -> dict[str, str]:
        cc, cxx = str(self.compiler("cc")), str(self.compiler("c++"))
        at = os.environ.get("SOURCE_DATE_EPOCH") or run("git", "-C", ROOT, "log", "-1", "--format=%ct").strip()
        path = f"{self.bin}:{os.environ['PATH']}"
        return {**os.environ, "CC": cc, "ASM": cc, "CXX": cxx, "PATH": path, "SOURCE_DATE_EPOCH": at}

    def cmake(self) -> list[str]:
        return [
            "-DCMAKE_SYSTEM_NAME=Linux",
            f"-DCMAKE_SYSTEM_PROCESSOR={self.architecture}",
            f"-DCMAKE_AR={self.compiler('ar')}",
            f"-DCMAKE_RANLIB={self.compiler('ranlib')}",
        ]

    def objcopy(self) -> str:
        if self.architecture == os.uname().machine:
            return needed("objcopy", "binutils")
        triple = f"{self.architecture}-linux-gnu"
        return needed(f"{triple}-objcopy", f"binutils-{triple}")


def sources(tools: Tools) -> dict[str, Path]:
    """The unpacked sources of the bundled libraries, by the package that carries them."""
    found = {}
    folder = tools.work / "sources"
    for line in (RECIPE / "sources.txt").read_text().splitlines():
        if line.startswith("#"):
            continue
        package, digest, inside = line.split()
        name = package.replace("==", "-")
        archive = folder / f"{name}.tar.gz"
        if not archive.exists():
            folder.mkdir(parents=True, exist_ok=True)
            run(tools.bin / "unearth", package, "--no-binary", "--download", folder)
        if hashlib.sha256(archive.read_bytes()).hexdigest() != digest:
            sys.exit(
                f"wheels.py: {archive} is not the file of packaging/wheels/sources.txt: delete it, and look what it is"
            )
        if not (folder / name).exists():
            shutil.unpack_archive(archive, folder)
        path = folder / name / inside
        if path.is_file():
            shutil.unpack_archive(path, folder)
            path = folder / path.name.removesuffix(".tar.gz")
        found[package.split("==")[0]] = path
    return found


def build_libraries(tools: Tools) -> None:
    """ISA-L as a static library and GOTCHA as a shared one, in tools.prefix."""
    if (tools.prefix / "lib" / "libgotcha.so.2").exists() and (tools.prefix / "lib" / "libisal.a").exists():
        return
    needed("nasm", "nasm")
    found = sources(tools)
    for name, source, options in (
        ("isal", RECIPE / "isal", [f"-DISAL_SOURCE={found['isal']}"]),
        ("gotcha", found["dftracer"], []),
    ):
        build = tools.work / tools.architecture / name
        flags = ["-DCMAKE_BUILD_TYPE=Release", f"-DCMAKE_INSTALL_PREFIX={tools.prefix}", "-DCMAKE_INSTALL_LIBDIR=lib"]
        cmake = tools.bin / "cmake"
        run(cmake, "-G", "Ninja", "-S", source, "-B", build, *tools.cmake(), *flags, *options, env=tools.environment())
        run(cmake, "--build", build, "--target", "install", env=tools.environment())


def extension_suffix(version: str, architecture: str) -> str:
    """Of an extension module for one version of CPython."""
    return f".cpython-{version.replace('.', '')}-{architecture}-linux-gnu.so"


def build_wheel(tools: Tools, version: str) -> Path:
    """The wheel as the build backend makes it, with debug information."""
    python = tools.work / f"python{version}"
    if not (python / "bin" / "pip").exists():
        run(find_python(version), "-m", "venv", python)
        run(python / "bin" / "pip", "install", "-q", "-r", RECIPE / "python.txt")
    folder = tools.work / tools.architecture / f"built-{version}"
    shutil.rmtree(folder, ignore_errors=True)
    stable = version == PYTHONS[-1]
    env = {
        **tools.environment(),
        "_PYTHON_HOST_PLATFORM": f"linux-{tools.architecture}",
        "SETUPTOOLS_EXT_SUFFIX": extension_suffix(version, tools.architecture),
        "CMAKE_GENERATOR": "Ninja",
    }
    settings = [
        f"build-dir={tools.work / tools.architecture / f'build-{version}'}",
        "install.strip=false",
        *(f"cmake.define.{flag.removeprefix('-D')}" for flag in tools.cmake()),
        "cmake.define.TAILRACE_FLUX=OFF",
        "cmake.define.TAILRACE_SLURM=OFF",
        "cmake.define.TAILRACE_STATIC_CXX=ON",
        f"cmake.define.TAILRACE_GOTCHA_INSTALLED={tools.prefix / 'lib' / 'libgotcha.so.2'}",
        f"cmake.define.ISAL_INCLUDE_DIR={tools.prefix / 'include'}",
        f"cmake.define.ISAL_LIBRARY={tools.prefix / 'lib' / 'libisal.a'}",
        *(["wheel.py-api=cp312"] if stable else []),
    ]
    options = [word for setting in settings for word in ("--config-settings", setting)]
    pip = [python / "bin" / "python", "-m", "pip", "wheel", "-q", "--no-build-isolation", "--no-deps"]
    run(*pip, "-w", folder, *options, ROOT, env=env)
    return next(folder.glob("*.whl"))


def is_elf(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def unresolved(path: Path) -> set[str]:
    """The symbols that no library has. A module may lack any when it is linked, as it lacks those of Python."""
    listed = run(needed("nm", "binutils"), "-D", "--undefined-only", path)
    names = {words[1] for words in map(str.split, listed.splitlines()) if words[0] == "U"}
    return {name for name in names if "@" not in name and not name.startswith(("Py", "_Py"))}


def strip(tools: Tools, wheel: Path, output: Path) -> Path:
    """The wheel with its debug information taken out, into an archive beside it."""
    folder = wheel.parent / "unpacked"
    run(tools.bin / "wheel", "unpack", "-d", folder, wheel)
    inside = next(folder.iterdir())
    debug = wheel.parent / "debug"
    for path in sorted(inside.rglob("*")):
        if not path.is_file() or path.is_symlink() or not is_elf(path):
            continue
        if names := unresolved(path):
            sys.exit(f"wheels.py: {path} needs what no library has: {sorted(names)}")
        kept = debug / path.relative_to(inside).with_name(path.name + ".debug")
        kept.parent.mkdir(parents=True, exist_ok=True)
        run(tools.objcopy(), "--only-keep-debug", "--compress-debug-sections", path, kept)
        mode = path.stat().st_mode
        run(tools.objcopy(), "--strip-all", f"--add-gnu-debuglink={kept}", path)
        path.chmod(mode)
    stripped = wheel.parent / "stripped"
    stripped.mkdir()
    run(tools.bin / "wheel", "pack", "-d", stripped, inside, env=tools.environment())
    archive = output / "debug" / f"{wheel.stem}-debug.tar.xz"
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(archive, "w:xz") as packed:
        packed.add(debug, arcname="debug")
    return next(stripped.glob("*.whl"))


def compiled_files(version: str, architecture: str) -> set[str]:
    """The names of the compiled files in a wheel for `version`, without their folders."""
    suffix = ".abi3.so" if version == PYTHONS[-1] else extension_suffix(version, architecture)
    return {f"_native{suffix}", f"_regions{suffix}", "tailrace"} | {
        "libtailrace.so",
        "libtailrace-entry.so",
        "libtailrace-plugin.so",
        "libgotcha.so.2",
    }


def faults_of(wheel: Path, version: str, architecture: str) -> list[str]:
    """What is wrong with a finished wheel, by its table of contents."""
    faults = []
    platform = f"manylinux_{GLIBC.replace('.', '_')}_{architecture}"
    if not wheel.name.endswith(f"-{platform}.whl"):
        faults.append(f"it does not run wherever {platform} does")
    with zipfile.ZipFile(wheel) as archive:
        names = {info.filename for info in archive.infolist() if not info.is_dir()}
        found = {Path(name).name for name in names if ".so" in name or "/scripts/" in name}
        if found != (wanted := compiled_files(version, architecture)):
            faults.append(f"missing: {sorted(wanted - found)}, too much: {sorted(found - wanted)}")
        if any(".libs/" in name for name in names):
            faults.append("auditwheel had to add libraries")
        licences = {file.name for file in (ROOT / "core" / "licenses").iterdir()} | {"LICENSE"}
        if absent := licences - {Path(name).name for name in names if "/licenses/" in name}:
            faults.append(f"licences are missing: {sorted(absent)}")
    if (size := wheel.stat().st_size) > MOST_BYTES:
        faults.append(f"{size:,} bytes, of at most {MOST_BYTES:,}")
    return faults


def repair(tools: Tools, wheel: Path, version: str, output: Path) -> Path:
    """The wheel under the name of the policy that auditwheel finds it to keep. Nothing may be added to it for that."""
    folder = wheel.parent / "repaired"
    # It takes the name of a policy only for the architecture that it runs on.
    options = ["--plat", "auto", "--only-plat", "-w", folder]
    run(tools.bin / "auditwheel", "repair", *options, wheel, env=tools.environment())
    repaired = next(folder.glob("*.whl"))
    # Compresses the files again, a 25th smaller than zlib can. Names, times and rights stay.
    run(needed("advzip", "advancecomp"), "--recompress", "--shrink-extra", "--quiet", repaired)
    if faults := faults_of(repaired, version, tools.architecture):
        sys.exit(f"wheels.py: {repaired}: {'; '.join(faults)}")
    return Path(shutil.copy(repaired, output))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--architecture", nargs="+", choices=ARCHITECTURES, default=ARCHITECTURES)
    parser.add_argument("--python", nargs="+", choices=PYTHONS, default=PYTHONS)
    parser.add_argument("--sdist", action="store_true", help="make the source distribution, too")
    parser.add_argument("--output", type=Path, default=ROOT / "dist")
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "wheels", help="what is kept between runs")
    chosen = parser.parse_args()
    chosen.output.mkdir(parents=True, exist_ok=True)
    for architecture in chosen.architecture:
        tools = Tools(chosen.work.resolve(), architecture)
        tools.make()
        build_libraries(tools)
        for version in chosen.python:
            stripped = strip(tools, build_wheel(tools, version), chosen.output)
            wheel = repair(tools, stripped, version, chosen.output)
            print(f"{wheel.stat().st_size:>9,} bytes  {wheel}", flush=True)
    if chosen.sdist:
        build = (tools.bin / "pyproject-build", "--sdist", "--no-isolation", "--outdir", chosen.output)
        run(*build, ROOT, env=tools.environment())


if __name__ == "__main__":
    main()
