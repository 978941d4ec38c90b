"""Pickling what goes to another process: the fast way where that will do, else by value; and why it cannot be done."""

import pickle
from typing import Any

import cloudpickle

PROTOCOL = 5
"""Protocol 5 of pickle hands over large buffers without a copy (PEP 574)."""

_MAIN = pickle.SHORT_BINUNICODE + bytes([len("__main__")]) + b"__main__"


def dumps(value: Any) -> bytes:
    """Return ``value`` pickled.

    Classes and functions of the main program, and of modules that are registered with cloudpickle, go by value, as
    other processes cannot import them. That takes many times as long, so it is done only where the pickle names one.

    Raises:
        TypeError, AttributeError, PicklingError: something in it cannot be pickled.
    """
    return bytes(_dump(value, None)[0])


def dump_frames(value: Any, large: int) -> list[Any]:
    """Return ``value`` pickled as `dumps` does, and behind the pickle each buffer of ``large`` bytes or more in it."""
    return _dump(value, large)


def _dump(value: Any, large: int | None) -> list[Any]:
    try:
        frames = _frames(pickle.dumps, value, large)
        if not _goes_by_value(frames[0]):
            return frames
    except Exception:  # noqa: BLE001, S110 - cloudpickle may be able to do it, or says why not
        pass
    try:
        return _frames(cloudpickle.dumps, value, large)
    except (TypeError, AttributeError, pickle.PicklingError):
        raise
    except Exception as error:
        raise pickle.PicklingError(f"{type(error).__name__}: {error}") from error


def _frames(dump: Any, value: Any, large: int | None) -> list[Any]:
    if large is None:
        return [dump(value, PROTOCOL)]
    buffers: list[Any] = []

    def keep_in_band(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes < large:
            return True
        buffers.append(raw)
        return False

    return [dump(value, PROTOCOL, buffer_callback=keep_in_band), *buffers]


def _goes_by_value(head: bytes) -> bool:
    """Tell whether a pickle may name a class or function that other processes cannot import.

    A pickle of protocol 5 names a class by the short text of its module and the opcode STACK_GLOBAL. So records that
    mention the main program are not taken for classes of it, unless a text is just its name and a class is there too.
    """
    if _MAIN in head and pickle.STACK_GLOBAL in head:
        return True
    return any(name.encode() in head for name in cloudpickle.list_registry_pickle_by_value())


def unpicklable(value: Any, otherwise: Exception | None = None) -> str | None:
    """Return why ``value`` cannot be pickled; if it can, what ``otherwise`` says, None if that is None."""
    try:
        cloudpickle.dumps(value)
    except Exception as cause:  # noqa: BLE001 - a user's object may raise anything when it is pickled
        return f"{type(cause).__name__}: {cause}"
    return None if otherwise is None else f"{type(otherwise).__name__}: {otherwise}"


def pickled_size(value: Any) -> int:
    """Return how many bytes ``value`` takes when it is pickled, 0 if it cannot be."""
    try:
        return len(pickle.dumps(value, pickle.HIGHEST_PROTOCOL))
    except Exception:  # noqa: BLE001 - the number is for statistics only
        return 0
