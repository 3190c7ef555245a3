"""Programs of ours that are started by others."""

import sys
from collections.abc import Iterable
from pathlib import Path


def module_command(module: str) -> list[str]:
    """The command that runs a module of ours, without the working directory among the places of modules: whoever may
    write there could put a module of his in front (Python 3.11)."""
    return [sys.executable, *(["-P"] if sys.version_info >= (3, 11) else []), "-m", module]


def document_name(arguments: Iterable[str], otherwise: str) -> str:
    """The name of the first file among a program's arguments, without its suffix and what follows a `#`: a document of
    CWL may have several workflows."""
    paths = (Path(word.partition("#")[0]) for word in arguments)
    return next((path.stem for path in paths if path.is_file()), otherwise)
