#!/usr/bin/env python3
"""Runs a static checker over the edited files, arranged as the installed package.

    python tools/source_tree.py mypy -p tailrace
    python tools/source_tree.py lint-imports

The folders of the checkout aren't nested as their packages are, and an editable installation maps one to the other with
an import hook, which no static checker follows. So build/source-tree/tailrace is made of links to the folders that
`[tool.scikit-build.wheel.packages]` in pyproject.toml names, and the command runs with it first on its path and without
the hook.

Invariants: every path printed is one of the checkout; the links are made anew each time. The compiled module isn't
in the tree: nothing can be run from it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent
TREE = ROOT / "build" / "source-tree"

# Runs at interpreter start, after the .pth file of the editable installation.
SITECUSTOMIZE = """import sys
sys.meta_path[:] = [f for f in sys.meta_path if not type(f).__module__.startswith("_editable_skbc_")]
"""


def packages() -> dict[str, Path]:
    """Package, as a path inside the wheel, -> its folder."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    table = settings["tool"]["scikit-build"]["wheel"]["packages"]
    return {package: ROOT / folder for package, folder in sorted(table.items())}


def make_tree() -> None:
    """Makes the links. Of a package that contains others, in the wheel or in the repository, the files are linked, and
    its own packages."""
    shutil.rmtree(TREE, ignore_errors=True)
    TREE.mkdir(parents=True)
    (TREE / "sitecustomize.py").write_text(SITECUSTOMIZE)
    table = packages()
    for package, folder in table.items():
        place = TREE / package
        inside = [other for other in table if other.startswith(f"{package}/")]
        if inside or any(folder in other.parents for other in table.values()):
            place.mkdir()
            for entry in folder.iterdir():
                own = (entry / "__init__.py").exists() and f"{package}/{entry.name}" not in inside
                if entry.is_file() or (own and entry not in table.values()):
                    (place / entry.name).symlink_to(entry)
        else:
            place.symlink_to(folder)


def main() -> int:
    """Runs the command of the arguments; its exit code."""
    if len(sys.argv) < 2:
        print(__doc__)
        return 2
    make_tree()
    places = [(f"{TREE.relative_to(ROOT)}/{p}", str(f.relative_to(ROOT))) for p, f in packages().items()]
    environment = dict(os.environ)
    for name in ("PYTHONPATH", "MYPYPATH"):
        environment[name] = os.pathsep.join(filter(None, [str(TREE), environment.get(name)]))
    command = subprocess.Popen(sys.argv[1:], cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)
    assert command.stdout is not None
    for line in command.stdout:
        shown = line
        for place, folder in reversed(places):
            shown = shown.replace(place, folder)
        print(shown, end="", flush=True)
    return command.wait()


if __name__ == "__main__":
    sys.exit(main())
