"""Hooks of the documentation site (mkdocs.yml): pages that are made of what lies outside of docs/.

The page of commands is what `--help` prints for each. The README, CONTRIBUTING, CHANGELOG and SECURITY become pages,
with their links to docs/ made relative to it; a link to a file that is no page becomes its name. The API reference
reads the edited sources (tools/source_tree.py). Nothing in docs/ needs this to be read in an editor or on a forge.

Rejected: mkdocs-click, which names commands after Python functions and prints click's internal defaults.
"""

from __future__ import annotations

import posixpath
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from mkdocs.plugins import event_priority
from mkdocs.structure.files import File

from tailrace.cli.main import group

sys.path.insert(0, str(Path(__file__).parent))
import source_tree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = source_tree.ROOT
PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
}
"""File of the repository -> page of the site."""
COMMANDS = "reference/commands.md"
MANAGERS = "Workflow managers"
"""The section of the navigation that pages are in by default: a manager's page needs no entry."""

_LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^\]]*)\]\((?P<target>[^)#\s]+)(?P<anchor>#[^)]*)?\)")


@event_priority(100)  # before the API reference looks for its folder, which a fresh clone lacks
def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Arranges the sources as their packages, for the API reference; lists pages that mkdocs.yml does not."""
    source_tree.make_tree()
    listed = set(listed_pages(config.nav))
    (managers,) = (section[MANAGERS] for section in config.nav or [] if MANAGERS in section)
    managers += sorted(path.name for path in Path(config.docs_dir).glob("*.md") if path.name not in listed)
    return config


def listed_pages(nav: Any) -> Iterator[str]:
    """The pages in a part of the navigation, which is a page, a list of parts, or a mapping of titles to parts."""
    if isinstance(nav, str):
        yield nav
    for part in nav.values() if isinstance(nav, dict) else nav if isinstance(nav, list) else ():
        yield from listed_pages(part)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages."""
    for name, page in PAGES.items():
        files.append(File.generated(config, page, content=(ROOT / name).read_text()))
    files.append(File.generated(config, COMMANDS, content=commands_page()))
    return files


def commands_page() -> str:
    """Every command with its help text."""
    parts = ["# Commands", "What `tailrace COMMAND --help` prints, of every command."]
    for words, command in commands(group, ("tailrace",)):
        context = click.Context(command, info_name=" ".join(words), max_content_width=100, terminal_width=100)
        parts += [f"## {' '.join(words)}", f"```text\n{command.get_help(context)}\n```"]
    return "\n\n".join(parts)


def commands(command: click.Command, words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """(words, command) of a command and of all below it."""
    yield words, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            if not below.hidden:
                yield from commands(below, (*words, name))


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Points the page's links at pages."""
    source = next((name for name, made in PAGES.items() if made == page.file.src_uri), f"docs/{page.file.src_uri}")

    def rewrite(link: re.Match[str]) -> str:
        if ":" in link["target"]:
            return link[0]
        file = posixpath.normpath(posixpath.join(posixpath.dirname(source), link["target"]))
        target = PAGES.get(file, file.removeprefix("docs/") if file.startswith("docs/") else None)
        if target is None:
            return f"{link['text']} (`{file}`)"
        target = posixpath.relpath(target, posixpath.dirname(page.file.src_uri) or ".")
        return f"{link['image']}[{link['text']}]({target}{link['anchor'] or ''})"

    return _LINK.sub(rewrite, markdown)
