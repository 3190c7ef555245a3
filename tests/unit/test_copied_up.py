"""Files of an overlay that were copied up: one file where its birth time alone changed, two where it was replaced."""

from typing import Any

import pytest

from support.flowcase import Story
from tailrace.analyzer.edges import copied_up
from tailrace.analyzer.edges.edge_table import EdgeTable
from tailrace.analyzer.store.mounts import Place

LOWER, COPY = "n1:0:42:7:1000", "n1:0:42:7:2000"


def joined(story: Story, fstype: str) -> EdgeTable:
    return copied_up.join(story.run().edges(), lambda host, path: Place("/m", fstype, "o"))


def change(between: Any = None) -> Story:
    """A file is read, opened for writing, which copies it up, and appended to."""
    story = Story(identities={"/m/a": LOWER})
    story.event("read", "/m/a", dir="r", offset=0, size=100, task="t1")
    if between:
        between(story)
    story.identities["/m/a"] = COPY
    story.event("openat", "/m/a", flags=0o2001, task="t2")
    story.event("write", "/m/a", dir="w", offset=100, size=5, task="t2")
    return story


def identities(table: EdgeTable) -> set[str]:
    """Those of the files that were read or written."""
    return set(table.files["file"].iloc[table.bursts["file"].unique()])


@pytest.mark.parametrize("fstype", ["overlay", "fuse.fuse-overlayfs"])
def test_a_file_that_was_copied_up_is_the_file_that_was_read(fstype: str) -> None:
    assert identities(joined(change(), fstype)) == {LOWER}


def test_another_birth_time_on_another_file_system_is_another_file() -> None:
    assert identities(joined(change(), "ext4")) == {LOWER, COPY}


@pytest.mark.parametrize("what", ["unlink", "rename"])
def test_a_file_whose_name_was_taken_away_before_is_another_one(what: str) -> None:
    def replace(story: Story) -> None:
        if what == "unlink":
            story.event("unlink", "/m/a", task="t2")
        else:
            story.identities["/m/b"] = "n1:0:42:8:1500"
            story.event("rename", "/m/b", path2="/m/a", task="t2")

    assert identities(joined(change(replace), "overlay")) == {LOWER, COPY}


def test_a_file_that_was_certainly_made_is_another_one() -> None:
    story = Story(identities={"/m/a": LOWER})
    story.event("read", "/m/a", dir="r", offset=0, size=100, task="t1")
    story.identities["/m/a"] = COPY
    story.event("openat", "/m/a", flags=0o301, task="t2")
    story.event("write", "/m/a", dir="w", offset=0, size=5, task="t2")
    assert identities(joined(story, "overlay")) == {LOWER, COPY}
