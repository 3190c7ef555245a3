"""Names as a run with TAILRACE_REDACT=paths has them, by the core's own code (core/src/format/name_hashing.h).

    of_run(directory)           the hasher for a run, by its run.json and the key of this process; None where
                                names are as they are
    of_key_file(meta, file)     the same by the key in a file, for who asks for a name afterwards

Invariant: where a run's names are hashed and its key is not here, there is an error and never a name as it is.
"""

import errno
import json
import os
from collections.abc import Mapping
from pathlib import Path

from tailrace import _native, context
from tailrace.errors import UsageError

KEPT = "TAILRACE_REDACT_KEEP"
KEY_FILE = "TAILRACE_REDACT_KEY"
_MOST_BYTES = 64 << 20
_NO_SUCH_FILE = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG)


class HashedNames:
    """Hashes names by one key. Names are str, with surrogates for bytes that are no UTF-8 (os.fsencode)."""

    def __init__(self, key: str, kept: str = "") -> None:
        """key: 32 hex digits; kept: patterns of parts that stay, separated by colons. Raises ValueError."""
        self._hasher = _native.NameHasher(key, kept)
        self.fingerprint = self._hasher.fingerprint()

    def path(self, path: str) -> str:
        """An absolute or relative path."""
        return os.fsdecode(self._hasher.path(os.fsencode(path), _is_machine_file(path)))

    def tag(self, key: str, value: str) -> str:
        """The value of a tag, not encoded."""
        return os.fsdecode(self._hasher.tag(key.encode(), os.fsencode(value)))

    def text(self, text: str) -> str:
        """Any other name: each part between slashes."""
        return self.tag("", text)


def _is_machine_file(path: str) -> bool:
    """Whether an existing file of the machine is called so, without links before the last part."""
    public = _native.NameHasher.is_public
    if not public(os.fsencode(path)) or not os.path.lexists(path):
        return False
    folder = str(Path(path).parent)
    return folder == "/" or public(os.fsencode(os.path.realpath(folder)))


def fingerprint_in(description: Mapping[str, object]) -> str | None:
    """The fingerprint of the key of a run, by its run.json; None where its names are as they are."""
    redaction = description.get("redaction")
    if not isinstance(redaction, Mapping):
        return None
    return str(redaction.get("key", "?"))


def of_run(run_dir: str | Path) -> HashedNames | None:
    """What hashes names for this run, by the key of this process. UsageError where it has another one, or none."""
    wanted = fingerprint_in(_description(run_dir))
    names = _of_this_process(kept_only=wanted is not None)
    if (names.fingerprint if names else None) == wanted:
        return names
    if wanted is None:
        raise UsageError(f"the names in {run_dir} are not hashed, and TAILRACE_REDACT is paths: give another run")
    raise UsageError(f"the names in {run_dir} are hashed with another key: give it by {KEY_FILE}")


def of_key_file(description: Mapping[str, object], file: str | Path | None) -> HashedNames:
    """What hashes names for a run with this run.json, by the key in `file`, or that of this process. UsageError."""
    wanted = fingerprint_in(description)
    if wanted is None:
        raise UsageError("the run's names are not hashed: leave the key out")
    chosen = os.environ.get(KEY_FILE) if file is None else file
    if chosen is None:
        raise UsageError(f"the run's names are hashed: give their key by --key or {KEY_FILE}, or a hashed name")
    kept = os.environ.get(KEPT) or context.setting(KEPT) or ""
    names = HashedNames(_native.key_in_file(chosen), kept)
    if names.fingerprint != wanted:
        raise UsageError(f"{chosen} has another key than that by which the run's names are hashed")
    return names


def fits_core(run_dir: str | Path) -> bool:
    """Whether the core in this process, which is traced, hashes names as this run has them."""
    own = None
    if context.setting("TAILRACE_REDACT") == "paths":
        own = HashedNames(context.setting("TAILRACE_NAME_KEY") or "").fingerprint
    return own == fingerprint_in(_description(run_dir))


def refuse(run_dir: str | Path, what: str) -> None:
    """UsageError: names in the run are hashed, and `what` would write some as they are."""
    if fingerprint_in(_description(run_dir)) is not None:
        raise UsageError(f"the names in {run_dir} are hashed (TAILRACE_REDACT=paths): {what}")


def _of_this_process(kept_only: bool) -> HashedNames | None:
    """kept_only: also where TAILRACE_REDACT is not set here, by the key's file."""
    key = _native.name_key()
    file = os.environ.get(KEY_FILE)
    if key is None and kept_only and file:
        key = _native.key_in_file(file)
    return HashedNames(key, os.environ.get(KEPT) or context.setting(KEPT) or "") if key is not None else None


def _description(run_dir: str | Path) -> Mapping[str, object]:
    path = Path(run_dir) / "run.json"
    try:
        with path.open("rb") as file:
            found = json.loads(file.read(_MOST_BYTES))
    except (OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno in _NO_SUCH_FILE:
            return {}
        raise UsageError(
            f"{path} can't be read, so that it is not known whether its names are hashed: {error}"
        ) from None
    return found if isinstance(found, Mapping) else {}
