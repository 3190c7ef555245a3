"""Programs of ours that are started by others."""

import sys


def module_command(module: str) -> list[str]:
    """The command that runs a module of ours, without the working directory among the places of modules: whoever may
    write there could put a module of his in front (Python 3.11)."""
    return [sys.executable, *(["-P"] if sys.version_info >= (3, 11) else []), "-m", module]
