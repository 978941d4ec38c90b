"""Tests of merge patches: the cases of RFC 7386 that documents can have. Their laws are in tests/laws."""

from typing import Any

import pytest

from tidewheel.display.merge_patch import merge, patch


@pytest.mark.parametrize(
    ("document", "changes", "merged"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_merging_is_that_of_the_standard(document: dict[str, Any], changes: dict[str, Any], merged: object) -> None:
    """The test cases of RFC 7386, appendix A, that have a document and a patch with keys."""
    assert merge(document, changes) == merged


def test_a_patch_has_only_differences() -> None:
    """A large document that hardly changes costs little to send."""
    before = {"operators": {str(number): {"records": 0} for number in range(100)}}
    after = {"operators": {**before["operators"], "7": {"records": 1}}}
    assert patch(before, after) == {"operators": {"7": {"records": 1}}}
