"""Writes the findings' part of docs/findings.md from the rules in analyzer/insights/findings/.

python tools/findings_docs.py            rewrite it
python tools/findings_docs.py --check    exit with 1 where the page differs
"""

from __future__ import annotations

import re
import sys
import textwrap
from pathlib import Path

from generated import write_or_check

from tailrace.analyzer.insights.finding import Rule
from tailrace.analyzer.insights.findings import RULES

PAGE = Path(__file__).parents[1] / "docs" / "findings.md"
BEGIN, END = "<!-- findings: tools/findings_docs.py -->\n", "<!-- end of findings -->\n"
WIDTH = 100


def documented() -> str:
    """A table of all findings, and what is to be known of each."""
    rows = [f"| [{rule.kind}](#{_anchor(rule)}) | {rule.about} | {_thresholds(rule)} |" for rule in RULES]
    table = "\n".join(["| finding | about | reported from |", "|---|---|---|", *rows])
    return f"\n{table}\n\n" + "\n".join(_entry(rule) for rule in RULES) + "\n"


def _anchor(rule: Rule) -> str:
    return re.sub(r"[^a-z0-9 -]", "", rule.kind.lower()).replace(" ", "-")


def _thresholds(rule: Rule) -> str:
    return ", ".join(map(str, rule.thresholds)) or "the first case"


def _entry(rule: Rule) -> str:
    facts = (("Do", rule.advice), ("See", f"`{rule.query.format_map(_Names())}`"), ("Source", f"{rule.source}."))
    lines = [f"### {rule.kind}", "", _wrapped(f"{rule.title}. {rule.definition}"), ""]
    return "\n".join([*lines, *(_wrapped(f"- **{name}**: {text}", "  ") for name, text in facts), ""])


class _Names(dict[str, str]):
    """Each name of a query's template as a placeholder."""

    def __missing__(self, key: str) -> str:
        return key.upper()


def _wrapped(text: str, indent: str = "") -> str:
    return "\n".join(
        textwrap.wrap(text, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    )


def page(text: str) -> str:
    """The page with its part about findings written anew."""
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    return before + BEGIN + documented() + END + after


if __name__ == "__main__":
    sys.exit(write_or_check({PAGE: page(PAGE.read_text(encoding="utf-8"))}))
