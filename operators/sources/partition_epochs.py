"""The epochs of partitions, for sources that assign no epochs.

All partitions have common epochs. When a partition begins an epoch, all others follow, even idle ones, as soon as they
are between two units. So a slow or idle partition holds no epoch open.
"""

from dataclasses import dataclass
from typing import Any

from tidewheel.progress import GraphError


@dataclass(frozen=True, slots=True)
class EpochRule:
    """When the next epoch begins: with each unit of a partition, after ``records`` records, or by the clock.

    Raises:
        GraphError: both numbers are given, or a number is not above 0.
    """

    every_s: float | None = None
    records: int | None = None

    def check(self, name: str) -> None:
        """Raise GraphError if both numbers are given, or a number is not above 0."""
        if self.every_s is not None and self.records is not None:
            raise GraphError(f"source {name!r}: epochs end by epoch_every_s= or by epoch_records=, not by both")
        for option, value in (("epoch_every_s", self.every_s), ("epoch_records", self.records)):
            if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or not value > 0):
                raise GraphError(f"source {name!r}: {option} is a number above 0, not {value!r}")

    def ends_epoch(self, records: int) -> bool:
        """Tell whether a partition ends its epoch after a unit; ``records`` is its number of records in the epoch."""
        if self.every_s is not None:
            return False
        return records >= (1 if self.records is None else self.records)


@dataclass(slots=True)
class PartitionEpoch:
    """The place of one partition in its epoch.

    >>> rule, place = EpochRule(records=3), PartitionEpoch()
    >>> place.fetched(rule, 2, is_whole=True), place.fetched(rule, 2, is_whole=False), place.may_move
    (False, False, False)
    >>> place.fetched(rule, 1, is_whole=True), place.records, place.may_move
    (True, 0, True)
    """

    records: int = 0
    may_move: bool = True
    """Whether the partition is between two units, and so may go to a later epoch."""

    def moved(self) -> None:
        """Record that the partition is in a later epoch now."""
        self.records = 0

    def fetched(self, rule: EpochRule, records: int, *, is_whole: bool) -> bool:
        """Record a batch of the epoch; return whether the epoch ends after it."""
        self.records += records
        self.may_move = is_whole
        if not (is_whole and rule.ends_epoch(self.records)):
            return False
        self.records = 0
        return True


def later(one: Any, other: Any) -> Any:
    """Return the later of two integer epochs; None is before all others."""
    if one is None or other is None:
        return other if one is None else one
    return max(one, other)
