"""A set of keys has each key once and in order, whether it keeps them as they came or as a mask."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.laws.strategies import law_settings
from tidewheel.differential import key_set
from tidewheel.differential.key_set import KeySet

Keys = st.lists(st.integers(-40, 40) | st.integers(-(2**62), 2**62), min_size=1, unique=True).map(sorted)


@law_settings(100)
@given(st.lists(Keys | st.just(None), max_size=8), st.sampled_from((1, 4, 1 << 16)))
def test_it_has_each_key_once(added: list[Any], most: int) -> None:
    """However many come at once, near each other or far apart, also if it is read meanwhile."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(key_set, "MOST_KEYS", most)
        keys, known = KeySet(), set[int]()
        for some in [*added, None]:
            if some is None:
                found = [key for part in keys.parts() for key in part.tolist()]
                assert found == sorted(known)
            else:
                keys.add(np.array(some))
                known.update(some)


def test_many_keys_near_each_other_take_a_byte_for_each_place() -> None:
    """So they take an eighth of what they take as numbers."""
    keys = KeySet()
    for first in (0, 1, 2):
        keys.add(np.arange(first, 300_000, 3))
    assert [len(part) for part in keys.parts()] == [65_537] * 4 + [300_000 - 4 * 65_537]
    assert keys._mask.nbytes == 300_000
    assert keys._parts == []
