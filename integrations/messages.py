"""Lines on stderr: `tailrace: SENTENCE`."""

import sys


def say(sentence: str) -> None:
    """Prints a line in which no name acts on the terminal: control characters are shown as escapes."""
    from tailrace.analyzer.util.formatting import visible  # on first use, so that commands start without it

    print(f"tailrace: {visible(sentence)}", file=sys.stderr, flush=True)
