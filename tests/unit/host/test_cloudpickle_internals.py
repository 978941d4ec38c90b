"""What tidewheel relies on in cloudpickle, and in Ray's copy of it."""

import pickle
import weakref
from typing import Any

import cloudpickle
import pytest
from ray import cloudpickle as of_ray

from tidewheel.host.cloudpickle_internals import _ClassesById, _IdsByClass
from tidewheel.host.program_classes import share_tracker

share_tracker()


@pytest.mark.parametrize("library", [cloudpickle, of_ray])
def test_each_copy_uses_the_tracker(library: Any) -> None:
    """By its two tables, for which it has a lock of its own."""
    module = library.cloudpickle
    by_class, by_id = module._DYNAMIC_CLASS_TRACKER_BY_CLASS, module._DYNAMIC_CLASS_TRACKER_BY_ID
    assert (type(by_class), type(by_id)) == (_IdsByClass, _ClassesById)
    assert (type(by_class).__base__, type(by_id).__base__) == (weakref.WeakKeyDictionary, weakref.WeakValueDictionary)
    share_tracker()
    assert module._DYNAMIC_CLASS_TRACKER_BY_CLASS is by_class


@pytest.mark.parametrize("library", [cloudpickle, of_ray])
def test_each_copy_pickles_the_function_that_fills_a_class_by_its_own_name(library: Any) -> None:
    """A process without tidewheel has no other."""

    class Local:
        pass

    pickled = library.dumps(Local)
    assert b"tidewheel" not in pickled
    assert b"_class_setstate" in pickled
    assert pickle.loads(pickled) is Local


def test_both_copies_mean_the_same_class() -> None:
    """A function that Ray brings knows the class of records that cloudpickle brings."""

    class Local:
        pass

    pickled = [library.dumps(Local) for library in (cloudpickle, of_ray)]
    assert {id(pickle.loads(one)) for one in pickled} == {id(Local)}
    assert cloudpickle.cloudpickle._get_or_create_tracker_id(Local) == of_ray.cloudpickle._get_or_create_tracker_id(
        Local
    )
