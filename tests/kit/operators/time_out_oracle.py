"""Substreams with a time-out in plain Python: one key after the other, with all watermarks known before."""

from collections.abc import Callable
from typing import Any, TypeAlias

from tests.kit.operators.window_oracle import Event

Ended: TypeAlias = tuple[int, int, tuple[int, ...]]
"""A substream that has ended: its last epoch, its key, and the numbers of its events in order."""


def expected_substreams(
    epochs: dict[int, list[Event]],
    timeout: Any,
    lateness: Any = 0,
    is_last: Callable[[Event], bool] = lambda event: False,
) -> list[Ended]:
    """Return the substreams of epochs, which are in order, each with at least one event.

    ``is_last`` says which events end theirs, after which the epoch has none of their keys.
    """
    watermarks: dict[int, Any] = {}
    for epoch in epochs:
        watermarks[epoch] = max(event.at for other in epochs if other <= epoch for event in epochs[other]) - lateness
    ended: list[Ended] = []
    for key in {event.key for events in epochs.values() for event in events}:
        before: int | None = None
        life: list[Event] = []
        last = 0
        for epoch, events in epochs.items():
            mine = [event for event in events if event.key == key]
            if mine:
                end = max((event.at for event in life), default=0) + timeout
                ended_before = before is not None and watermarks[before] >= end
                ends_between = watermarks[epoch] >= end and all(event.at >= end for event in mine)
                if life and (ended_before or ends_between):
                    ended.append(_ended(last, life))
                    life = []
                life, last = life + mine, epoch
                if any(map(is_last, mine)):
                    ended.append(_ended(last, life))
                    life = []
            before = epoch
        if life:
            ended.append(_ended(last, life))
    return sorted(ended)


def _ended(epoch: int, life: list[Event]) -> Ended:
    return epoch, life[0].key, tuple(sorted(event.number for event in life))
