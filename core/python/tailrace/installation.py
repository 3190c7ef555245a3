"""Where the compiled files of this installation are. In an editable one they are not beside the Python sources."""

from pathlib import Path

from tailrace import _native

PACKAGE = Path(_native.__file__).absolute().parent
"""The installed package: `lib/` (libtailrace.so), `include/`, `flux/lib`, `flux/etc`."""
FROM_SOURCE = "pip install --force-reinstall --no-deps --no-binary tailrace tailrace"
"""What builds the parts that wheels lack, since they are compiled with a site's own headers."""
