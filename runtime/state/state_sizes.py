"""Estimates of the memory of operators' states, from a sample of their parts."""

from collections import deque
from collections.abc import Sequence
from itertools import islice
from sys import getsizeof
from typing import Any, Final

from tidewheel.runtime.state.operator_state import OperatorState

_DEPTH: Final = 4
_FIRST: Final = 4
"""An estimate samples this many parts at either end of a state, half as many of each of these parts, and so on."""
_MOST_LOOKS: Final = 10
"""One report samples the states of at most this many operators; other sizes are scaled with the number of keys."""
_DIGITS: Final = 2


def estimated_size(value: Any, depth: int = _DEPTH, first: int = _FIRST) -> float:
    """Estimate the bytes of a value and of everything that it refers to.

    Parts at the beginning and the end are sampled; shared parts count each time. Keyed state is not marked as read.

    >>> round(estimated_size({n: "x" * 951 for n in range(1000)}) / 100_000)
    11
    """
    size = getattr(value, "nbytes", None)  # arrays and Arrow's tables have it
    if isinstance(size, int):
        return size
    own, (count, some) = getsizeof(value, 0), _parts(value, first)
    if not depth or not some:
        return own
    return own + count * sum(estimated_size(part, depth - 1, max(1, first // 2)) for part in some) / len(some)


def _parts(value: Any, first: int) -> tuple[int, list[Any]]:
    if isinstance(value, dict):  # the methods of a keyed state would read all of its values
        pairs = dict.items(value)
        some = [*islice(pairs, first), *islice(reversed(pairs), first)]
        return 2 * len(value), [part for pair in some for part in pair]
    if isinstance(value, list | tuple | deque):
        return len(value), [*islice(value, first), *islice(reversed(value), first)]
    if isinstance(value, set | frozenset):
        return len(value), [*islice(value, 2 * first)]
    fields = getattr(value, "__dict__", None)
    return (1, [fields]) if isinstance(fields, dict) and not isinstance(value, type) else (0, [])


class StateSizes:
    """The size estimates of one worker, kept from report to report. Each report takes a few milliseconds."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, float]] = {}
        self._turn = 0

    def look(self, kept: Sequence[OperatorState]) -> dict[str, Any]:
        found = [one for one in kept if one.states or one.by_key]
        keys = {one.operator: one.keys for one in found}
        turn = self._turn % max(1, len(found))
        for one in (found[turn:] + found[:turn])[:_MOST_LOOKS]:
            self._turn += 1
            try:
                size = sum(map(estimated_size, (*one.states.values(), *one.by_key.values())))
            except Exception:  # noqa: BLE001, S112 - values are of the user's types, and another thread may change them
                continue
            self._known[one.operator] = keys[one.operator], size
        known = {name: (now, *self._known[name]) for name, now in keys.items() if name in self._known}
        sizes = {name: size * now / at if at else size for name, (now, at, size) in known.items()}
        # Two digits, so that small changes make no new report.
        return {
            "state_keys": keys,
            "state_bytes": {name: int(float(f"{of:.{_DIGITS}g}")) for name, of in sizes.items()},
        }
