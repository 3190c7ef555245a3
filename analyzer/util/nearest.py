"""What a name that doesn't exist may have meant."""

from __future__ import annotations

from collections.abc import Iterable


def hint(name: str, known: Iterable[str]) -> str:
    """ " (did you mean 'align'?)" where a known name is like it, else ""."""
    from difflib import get_close_matches

    near = get_close_matches(name, [one for one in known if one], n=3, cutoff=0.6)
    return f" (did you mean {' or '.join(map(repr, near))}?)" if near else ""
