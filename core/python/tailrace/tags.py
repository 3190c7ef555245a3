"""Tags: conversion between mappings and canonical strings (docs/trace-format.md, "Tags").

The rules are implemented once, in the core (`tailrace._native.tag_error`, `merge_tags`); this module only
percent-encodes. Invariant: every returned string is canonical, so equal contexts are equal strings.
"""

import re
from collections.abc import Mapping
from urllib.parse import quote, unquote

from tailrace import _native
from tailrace.errors import TagError

_UNQUOTED = "_.:/@+-"
_is_plain = re.compile(r"[A-Za-z0-9_.-]*\Z").match
"""Of a text in which quote() has nothing to do, where keys of regions spend their time."""

TagValue = str | int


def encode(tags: Mapping[str, TagValue]) -> str:
    """The canonical string of `tags`; "" for an empty mapping.

    Raises TagError, naming the key and the rule, when a tag breaks the rules.
    """
    return canonical(",".join(f"{_encode_key(key)}={_encode_value(key, value)}" for key, value in tags.items()))


def decode(text: str) -> dict[str, str]:
    """The tags of a canonical string, in its order. Raises TagError for any other string."""
    _check(text, of_core=True)
    pairs = (pair.partition("=") for pair in text.split(",") if pair)
    return {key: unquote(value, errors="strict") for key, _, value in pairs}


def canonical(text: str) -> str:
    """`text` with its keys in canonical order. Raises TagError when it breaks the rules."""
    _check(text)
    return _native.merge_tags("", text)


def merge(base: str, over: str) -> str:
    """The canonical string of both; a key in both has the value of `over`.

    Raises TagError when either of them, or the result (8192 bytes, 64 pairs), breaks the rules.
    """
    _check(base, of_core=True)  # of a process that was started in a region, too
    _check(over)
    merged = _native.merge_tags(base, over)
    _check(merged, of_core=True)
    return merged


def parse_assignment(text: str) -> tuple[str, str]:
    """Splits a command line's `key=value`. Raises TagError when there is no `=`."""
    key, equals, value = text.partition("=")
    if not equals:
        raise TagError(f"tag {text!r} has no '=': write it as key=value")
    return key, value


def _check(text: str, of_core: bool = False) -> None:
    fault = _native.tag_error(text, of_core)
    if fault is not None:
        raise TagError(fault)


def _encode_key(key: object) -> str:
    if not isinstance(key, str):
        raise TagError(f"tag key {key!r} is a {type(key).__name__}: a key is a str")
    return _quote(key, "", f"tag key {key!r}")


def _encode_value(key: str, value: object) -> str:
    if not isinstance(value, (str, int)):
        raise TagError(f"tag {key!r} has a {type(value).__name__} as its value: give a str or an int")
    return _quote(str(value), _UNQUOTED, f"the value of tag {key!r}")


def _quote(text: str, unquoted: str, what: str) -> str:
    if _is_plain(text):
        return text
    try:
        quoted = quote(text, safe=unquoted, errors="strict")
    except UnicodeEncodeError as error:
        raise TagError(f"{what} can't be written as UTF-8 ({error.reason})") from error
    # quote() never escapes "~"; the canonical form does.
    return quoted.replace("~", "%7E")
