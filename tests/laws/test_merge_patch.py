"""Laws of merge patches: a document and the patches that follow it are the documents that they were made of."""

from itertools import accumulate, pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tidewheel.display.merge_patch import merge, patch

_KEYS = st.sampled_from("abcd")
_LEAVES = st.one_of(st.integers(0, 3), st.booleans(), st.text(max_size=2), st.lists(st.integers(0, 2), max_size=2))
_VALUES = st.recursive(_LEAVES, lambda inner: st.dictionaries(_KEYS, inner, max_size=4), max_leaves=12)
DOCUMENTS = st.dictionaries(_KEYS, _VALUES, max_size=4)


@given(st.lists(DOCUMENTS, min_size=1, max_size=6))
def test_merging_all_patches_gives_each_document(documents: list[dict[str, Any]]) -> None:
    """A reader that has one whole document, and merges each patch after it, has what the job has."""
    patches = [patch(before, after) for before, after in pairwise(documents)]
    assert list(accumulate(patches, merge, initial=documents[0])) == documents


@given(DOCUMENTS, DOCUMENTS)
def test_a_patch_is_empty_only_between_equal_documents(before: dict[str, Any], after: dict[str, Any]) -> None:
    """What has not changed costs nothing, and what has is sent."""
    assert (patch(before, after) == {}) == (before == after)


@given(DOCUMENTS, DOCUMENTS)
def test_arguments_stay_as_they_are(before: dict[str, Any], after: dict[str, Any]) -> None:
    """A view of before is still there after the next one was made."""
    copies = repr((before, after))
    changes = patch(before, after)
    told = repr(changes)
    merge(before, changes)
    assert (repr((before, after)), repr(changes)) == (copies, told)
