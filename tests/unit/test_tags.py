"""Tags: the canonical string, both ways, and what is refused (docs/trace-format.md, "Tags")."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace import tags
from tailrace.errors import TagError

keys = st.from_regex(r"[a-z][a-z0-9_.-]{0,20}", fullmatch=True)
# Any UTF-8 without control characters; surrogates are no UTF-8.
values = st.text(st.characters(exclude_categories=("Cc", "Cs")), min_size=1, max_size=50)


@given(st.dictionaries(keys, values, max_size=12))
def test_decoding_gives_back_what_was_encoded(mapping):
    assert tags.decode(tags.encode(mapping)) == mapping


@given(st.dictionaries(keys, values, max_size=12))
def test_the_order_of_a_mapping_does_not_matter(mapping):
    backwards = dict(reversed(mapping.items()))
    assert tags.encode(mapping) == tags.encode(backwards)


def test_known_keys_come_first_then_the_others_in_byte_order():
    given_tags = {"zone": "z", "rank": 3, "job": "j", "b.c": "x", "task": "t", "stage": "s", "workflow": "w", "b": "y"}
    assert tags.encode(given_tags) == "workflow=w,stage=s,task=t,job=j,rank=3,b=y,b.c=x,zone=z"


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("a_b.c:d/e@f+g-h", "a_b.c:d/e@f+g-h"),
        ("a b", "a%20b"),
        ("a,b=c%", "a%2Cb%3Dc%25"),
        ("~", "%7E"),
        ("é", "%C3%A9"),
        (17, "17"),
    ],
)
def test_percent_encoding(value, written):
    assert tags.encode({"k": value}) == f"k={written}"


def test_no_tags_are_the_empty_string():
    assert tags.encode({}) == ""
    assert tags.decode("") == {}


@pytest.mark.parametrize(
    ("mapping", "named"),
    [
        ({"Stage": "x"}, "Stage"),
        ({"1st": "x"}, "1st"),
        ({"a=b,c": "x"}, "a%3Db%2Cc"),
        ({"a" * 65: "x"}, "a" * 65),
        ({"stage": ""}, "stage"),
        ({"stage": "a\nb"}, "stage"),
        ({"stage": "x" * 1025}, "stage"),
        ({"stage": "\ud800"}, "stage"),
        ({"stage": ["x"]}, "stage"),
        ({"stage": None}, "stage"),
        ({3: "x"}, "3"),
    ],
)
def test_a_refused_tag_is_named(mapping, named):
    with pytest.raises(TagError) as raised:
        tags.encode(mapping)
    assert named in str(raised.value)


def test_more_than_64_tags_are_refused():
    tags.encode({f"k{number}": "v" for number in range(64)})
    with pytest.raises(TagError):
        tags.encode({f"k{number}": "v" for number in range(65)})


def test_merge_overrides_the_first_by_the_second():
    assert tags.merge("workflow=w,stage=a,x=1", "stage=b,task=7") == "workflow=w,stage=b,task=7,x=1"


@pytest.mark.parametrize("text", ["stage", "stage=a b", "=x", "stage=%2", "stage=a,,task=b"])
def test_non_canonical_text_is_not_decoded(text):
    with pytest.raises(TagError):
        tags.decode(text)


def test_an_assignment_needs_an_equals_sign():
    assert tags.parse_assignment("stage=a=b") == ("stage", "a=b")
    with pytest.raises(TagError, match="key=value"):
        tags.parse_assignment("stage")


def test_tags_of_a_process_in_a_region_take_more() -> None:
    """The core has passed on the region's path, which users may not give."""
    assert tags.merge("stage=a,region=train/load", "task=1") == "stage=a,task=1,region=train/load"
    assert tags.decode("stage=a,region=train/load")["region"] == "train/load"
    for unfit in ({"region": "r"}, {"stage": "a", "region": "r"}):
        with pytest.raises(TagError, match="annotations"):
            tags.encode(unfit)
    with pytest.raises(TagError):
        tags.merge("stage=a", "region=r")
