"""All private parts of cloudpickle that tidewheel uses.

cloudpickle gives an id to each class that it pickles by value, so that a class received twice is one class.
``tests/unit/host/test_cloudpickle_internals.py`` says what tidewheel relies on.
"""

import sys
import weakref
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any, Protocol

import cloudpickle


class ClassTracker(Protocol):
    """Tracks the classes of a process, for all copies of cloudpickle; see `tidewheel.host.program_classes`."""

    def id_of(self, kind: Any) -> str: ...

    def tracked(self, id_: str, came: Any) -> Any:
        """Return this process's class with an id, or ``came``, the received class, if the process has none."""

    def fill(self, kind: Any, state: Any, set_state: Callable[[Any, Any], Any]) -> Any:
        """Call ``set_state(kind, state)`` to give a class its received attributes, unless it has them.

        Return the class.
        """

    def adopt(self, ids: Iterable[tuple[Any, str]]) -> None: ...


def track_by(tracker: ClassTracker) -> None:
    """Let cloudpickle, and Ray if it is imported, use a tracker; idempotent."""
    modules: list[Any] = [cloudpickle.cloudpickle, sys.modules.get("ray.cloudpickle.cloudpickle")]
    for module in modules:
        if module is not None and not isinstance(module._DYNAMIC_CLASS_TRACKER_BY_CLASS, _IdsByClass):
            _replace_tracker(module, tracker)


def _replace_tracker(module: Any, tracker: ClassTracker) -> None:
    set_state = module._class_setstate

    @wraps(set_state)  # so it is pickled by the name of the original, which processes without tidewheel have
    def fill(kind: Any, state: Any) -> Any:
        return tracker.fill(kind, state, set_state)

    with module._DYNAMIC_CLASS_TRACKER_LOCK:
        tracker.adopt(module._DYNAMIC_CLASS_TRACKER_BY_CLASS.items())
        module._DYNAMIC_CLASS_TRACKER_BY_CLASS = _IdsByClass(tracker)
        module._DYNAMIC_CLASS_TRACKER_BY_ID = _ClassesById(tracker)
        module._class_setstate = fill


class _IdsByClass(weakref.WeakKeyDictionary[Any, str]):
    def __init__(self, tracker: ClassTracker) -> None:
        super().__init__()
        self._tracker = tracker

    def get(self, key: Any, default: Any = None) -> Any:
        return self._tracker.id_of(key)

    def __setitem__(self, key: Any, value: str) -> None:
        """Do nothing: the tracker has stored the id."""


class _ClassesById(weakref.WeakValueDictionary[str, Any]):
    def __init__(self, tracker: ClassTracker) -> None:
        super().__init__()
        self._tracker = tracker

    def setdefault(self, key: str, default: Any = None) -> Any:
        return self._tracker.tracked(key, default)
