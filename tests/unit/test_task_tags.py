"""The tags of tasks: equal to those that `tailrace.tags` gives, and valid for every name that a manager has."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace import tags
from tailrace.errors import TagError
from tailrace.integrations.task_tags import TaskTags, tag_value


@pytest.mark.parametrize("stage", ["align", "a b", "100%", "%d", "é,=x~"])
@pytest.mark.parametrize("base", ["", "job=task%3D7,rank=3,a=1,zone=%25d"])
def test_the_tags_of_a_task_are_those_that_encode_gives(base, stage):
    of_tasks = TaskTags(base, "w 1")
    for task, attempt in [(0, 0), (17, 2), (2**40, 1), ("make:a b", 1), ("%s", 0), ("é" * 300, 0)]:
        own = {"task": task, "try": attempt}
        expected = tags.merge(base, tags.encode({"workflow": "w 1", "stage": stage, **own}))
        assert of_tasks.of(stage, task, attempt) == expected


def test_a_stage_that_is_no_tag_is_refused():
    with pytest.raises(TagError, match="stage"):
        TaskTags("", "w").of("x" * 2000, 1, 0)


@given(st.one_of(st.text(max_size=600), st.integers()))
def test_every_name_becomes_a_tag(name):
    value = tag_value(name)
    assert tags.decode(TaskTags("", "w").of("s", name))["task"] == value
    if str(name).isprintable() and name != "" and len(str(name).encode()) <= 1024:
        assert value == str(name)


def test_names_that_differ_stay_different():
    names = ["a\nb", "a\tb", "a b", "\udc80", "x" * 1025, "x" * 1026, "é" * 600, "é" * 601]
    assert len({tag_value(name) for name in names}) == len(names)
