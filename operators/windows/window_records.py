"""The output of windows: a result for each key and window, and a note on each record that came too late for one."""

from typing import Any, Generic, NamedTuple, TypeVar

Record = TypeVar("Record")
Value = TypeVar("Value")


class WindowResult(NamedTuple, Generic[Value]):
    """What was made of the records of one key in one window.

    Attributes:
        key: the key that these records have in common.
        start: where the window starts; of a session, when its first record happened.
        end: the first time after the window; of a session, the gap after its last record.
        value: what the fold made of the records.
    """

    key: Any
    start: Any
    end: Any
    value: Value


class LateRecord(NamedTuple, Generic[Record]):
    """A record that came after a window it belongs to was closed; if it missed several, there is one for each.

    Attributes:
        key: its key.
        start: where the window that it missed starts.
        end: where that window ends: at or before the watermark, which is why it was closed.
        at: when the record happened.
        record: the record itself.
        watermark: how far event time had come when the epoch of the record began.
    """

    key: Any
    start: Any
    end: Any
    at: Any
    record: Record
    watermark: Any
