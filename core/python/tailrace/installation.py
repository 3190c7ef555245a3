"""Where the compiled files of this installation are. In an editable one they are not beside the Python sources."""

from pathlib import Path

from tailrace import _native

PACKAGE = Path(_native.__file__).absolute().parent
"""The installed package: `lib/` (libtailrace.so), `include/`, `flux/lib`, `flux/etc`."""
