"""Lines on stderr: `tailrace: SENTENCE`."""

import sys

from tailrace.base.text import visible


def say(sentence: str) -> None:
    """Prints a line in which no name acts on the terminal: control characters are shown as escapes."""
    print(f"tailrace: {visible(sentence)}", file=sys.stderr, flush=True)
