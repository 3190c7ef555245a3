"""Text of others, made safe for files and terminals."""


def clean(text: str) -> str:
    """`text` as valid UTF-8: lone surrogates, which JSON's escapes can produce, become U+FFFD."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def visible(text: str) -> str:
    """`text` with control and invisible characters as Python's escapes: \\n, \\x1b, \\u202e."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
