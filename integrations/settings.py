"""The settings: the table of the core (core/src/format/settings.def), and the file that gives them.

    argument of run, trace() or a policy  >  environment  >  file (TAILRACE_CONFIG)  >  default

Whoever launches reads the file, once, into its own environment: from there settings go the one way to all processes,
hidden from the programs, and nothing on a compute node needs the file, or a YAML parser.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from pathlib import Path

from tailrace import _native, context
from tailrace.errors import UsageError

PREFIX = "TAILRACE_"
CONFIG = "TAILRACE_CONFIG"
MANAGED = "TAILRACE_MANAGED_TAGS"
_SEPARATORS = {
    "<layers>": ",",
    "<annotations>": ",",
    "<paths>": ":",
    "<patterns>": ":",
    "<functions>": ":",
    "<variables>": "\n",
}
"""Between the items of a list in the file, by the kind of value in the table."""

_from_file: dict[str, str] = {}
"""The settings that a file gave this process -> the file."""


@dataclass(frozen=True)
class Setting:
    """A row of the table."""

    name: str
    """The variable."""
    default: str
    choices: str
    """The valid values in words."""
    values: str
    """The valid values as the table has them: words and kinds (`<path>`), separated by `|`."""
    doc: str
    """What it does, in Markdown."""
    of_core: bool
    """Whether the processes of a run read it; else who starts or ends the run."""

    @property
    def key(self) -> str:
        """Its name in a file and in arguments."""
        return self.name.removeprefix(PREFIX).lower()

    @property
    def is_own(self) -> bool:
        """Whether tailrace sets it, and nobody else."""
        return self.values == "<own>"


@cache
def table() -> dict[str, Setting]:
    """The settings by the names of their variables."""
    return {row[0]: Setting(*row) for row in _native.settings()}


def named(key: str, where: str, own: bool = False) -> Setting:
    """The setting of this name: `journal_dir`, `journal-dir` or TAILRACE_JOURNAL_DIR. own: also one that only
    tailrace sets. UsageError: there is none."""
    name = PREFIX + key.upper().replace("-", "_").removeprefix(PREFIX)
    found = table().get(name)
    if found is None or (found.is_own and not own):
        known = [row.key for row in table().values() if not row.is_own]
        near = get_close_matches(key.lower(), known, n=1)
        hint = f" (did you mean {near[0]!r}?)" if near else ""
        raise UsageError(f"{where}: there is no setting {key!r}{hint}; there are {', '.join(known)}")
    return found


def checked(setting: Setting, value: object, where: str) -> str:
    """The value as the variable has it: a list's items are joined. UsageError: it can't have this value."""
    text = _text_of(setting, value)
    if text and not _native.is_setting(setting.name, text):
        raise UsageError(f"{where}: {setting.key} is {text!r}: give {setting.choices}")
    return text


def _text_of(setting: Setting, value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, Mapping):
        if setting.values == "<tags>":
            from tailrace.tags import encode

            return encode({str(key): str(item) for key, item in value.items()})
        return "\n".join(f"{key}={item}" for key, item in value.items())
    if isinstance(value, Sequence) and not isinstance(value, str):
        separators = [_SEPARATORS[kind] for kind in setting.values.split("|") if kind in _SEPARATORS]
        return (separators[0] if separators else ",").join(map(str, value))
    return str(value)


def choose(given: Mapping[str, object], where: str) -> None:
    """Takes arguments as if the user had set the variables. UsageError: there is no such setting or value."""
    texts = {setting.name: checked(setting, value, where) for setting, value in _rows(given, where)}
    for name, text in texts.items():
        os.environ[name] = text
        _from_file.pop(name, None)


def read_file(path: str | Path) -> dict[str, str]:
    """The variables that a YAML file gives: a mapping from names of settings to values. UsageError."""
    import yaml

    try:
        with Path(path).open(encoding="utf-8") as file:
            content = yaml.safe_load(file)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}: give a YAML file with settings") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is no YAML: {' '.join(str(error).split())}") from None
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise UsageError(f"{path}: a mapping is expected, a line for each setting, as in `detail: auto`")
    return {setting.name: checked(setting, value, str(path)) for setting, value in _rows(content, str(path))}


def _rows(given: Mapping[str, object], where: str) -> list[tuple[Setting, object]]:
    return [(named(str(key), where), value) for key, value in given.items()]


def load_file() -> None:
    """Puts the settings of the file that TAILRACE_CONFIG names into this process's environment, unless they are there.
    UsageError: the file can't be read, or has what is no setting."""
    path = os.environ.get(CONFIG)
    if not path or path in _from_file.values():
        return
    for name, text in read_file(path).items():
        if name != CONFIG and not os.environ.get(name) and text:
            os.environ[name] = text
            _from_file[name] = path


def value_and_source(setting: Setting) -> tuple[str, str]:
    """What a process that is started now would have, and where that comes from."""
    if setting.name == MANAGED:
        tags, variables = _native.managed_tags(os.environ)
        by_manager: dict[str, list[str]] = {}
        for manager, variable in variables:
            by_manager.setdefault(manager, []).append(variable)
        if tags:
            return tags, "; ".join(f"{manager}: {', '.join(names)}" for manager, names in by_manager.items())
    chosen = os.environ.get(setting.name)
    if chosen:
        return chosen, _from_file.get(setting.name, "environment")
    around = context.setting(setting.name)
    if around and around != setting.default:
        return around, "surrounding run"
    return setting.default, "default"


def check() -> None:
    """UsageError: a variable has a value that its setting can't have."""
    fault = _native.bad_setting()
    if fault is not None:
        raise UsageError(fault)
