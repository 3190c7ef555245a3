"""The files of parts as a file system of Arrow, which opens them as `parts.open_file` does.

Invariant: datasets read what a store's users wrote through this alone. Arrow's own file system would wait for a FIFO
and follow links, and what was a file when it was listed can be either when it is opened.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.fs

from tailrace.analyzer.runstore import parts


class _Files(pyarrow.fs.FileSystemHandler):  # type: ignore[misc]
    """Opens the files of one user's parts, and does nothing else."""

    def __init__(self, uid: int) -> None:
        self.uid = uid

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Files) and other.uid == self.uid

    def __hash__(self) -> int:
        return hash(self.uid)

    def get_type_name(self) -> str:
        return "tailrace-parts"

    def normalize_path(self, path: str) -> str:
        return path

    def open_input_file(self, path: str) -> pa.NativeFile:
        return parts.open_file(Path(path), self.uid)

    def open_input_stream(self, path: str) -> pa.NativeFile:
        return parts.open_file(Path(path), self.uid)

    def _refuse(self, *arguments: Any, **options: Any) -> NoReturn:
        raise OSError("the files of a store are read by their names alone")

    get_file_info = get_file_info_selector = _refuse
    create_dir = delete_dir = delete_dir_contents = delete_root_dir_contents = delete_file = _refuse
    move = copy_file = open_output_stream = open_append_stream = _refuse


@cache
def files_of(uid: int) -> pyarrow.fs.FileSystem:
    """The files of the parts of the user `uid`."""
    return pyarrow.fs.PyFileSystem(_Files(uid))


class Dataset(ds.FileSystemDataset):  # type: ignore[misc]
    """A dataset of such files, which DuckDB may scan. pyarrow's `Scanner.to_reader` begins to read with Python's lock
    held, and waits for Arrow's own threads, which want that lock to open a file here: both waited forever."""

    def scanner(self, **options: Any) -> _Scanner:
        """A scanner, as DuckDB and the other methods here use it."""
        return _Scanner(super().scanner(**options))


class _Scanner:
    """pyarrow's scanner, but for `to_reader`."""

    def __init__(self, scanner: ds.Scanner) -> None:
        self._scanner = scanner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._scanner, name)

    def to_reader(self) -> pa.RecordBatchReader:
        """The batches, which are asked for one by one, without the lock."""
        return pa.RecordBatchReader.from_batches(self._scanner.projected_schema, self._scanner.to_batches())
