"""Joins by functions of a record: hash joins in dicts, whose results are pairs (left, right)."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, get_args

from tidewheel.operators.epochs.gathered_epochs import GatheredEpoch
from tidewheel.operators.keys.join_keys import Groups, KeyFunctions, rows_of, split_off_unmatchable
from tidewheel.operators.keys.record_keys import Keys
from tidewheel.progress import GraphError
from tidewheel.transport.batches import Batch

How: TypeAlias = Literal["inner", "left", "right", "outer"]
"""Which records without a partner are kept, with None in its place: none, this stream's, the other's, or both."""

_HOW = get_args(How)

Pair: TypeAlias = tuple[Any, Any]


@dataclass(frozen=True, slots=True)
class PairJoin:
    """Pairs the records of an epoch whose keys are equal. Linear in records and pairs."""

    keys: KeyFunctions
    how: How

    def process(self, kept: object, epoch: GatheredEpoch) -> Sequence[list[Batch]]:
        """Return the pairs of an epoch with two inputs; see `tidewheel.operators.epochs.gathered_epochs`."""
        lefts, lonely_lefts = _matchable(epoch.batches[0], self.keys, 0)
        rights, lonely_rights = _matchable(epoch.batches[1], self.keys, 1)
        found = pairs(lefts, rights)
        if self.how in {"left", "outer"}:
            found += [(record, None) for key in lefts if key not in rights for record in lefts[key]]
            found += [(record, None) for record in lonely_lefts]
        if self.how in {"right", "outer"}:
            found += [(None, record) for key in rights if key not in lefts for record in rights[key]]
            found += [(None, record) for record in lonely_rights]
        return ([found],)


def pairs(lefts: Groups, rights: Groups) -> list[Pair]:
    """Return the pairs of records whose keys are equal. Linear in the side with fewer keys and in the result.

    >>> pairs({1: ["a"], 2: ["b"]}, {2: ["x", "y"], 3: ["z"]})
    [('b', 'x'), ('b', 'y')]
    """
    few, many = (lefts, rights) if len(lefts) <= len(rights) else (rights, lefts)
    return [(left, right) for key in few if key in many for left in lefts[key] for right in rights[key]]


def _matchable(batches: list[Batch], keys: KeyFunctions, side: int) -> tuple[Groups, list[Any]]:
    """Return the records by key, and those whose keys match nothing."""
    groups = Keys(keys.exchanges[side]).grouped(rows_of(batches, keys))
    return groups, split_off_unmatchable(groups)


def check_how(name: str, how: object) -> None:
    """Raise GraphError unless ``how`` is one of the ways to join."""
    if how not in _HOW:
        raise GraphError(f"operator {name!r}: how is one of {', '.join(map(repr, _HOW))}, not {how!r}")


@dataclass(slots=True)
class KeptGroups:
    """All records of earlier epochs, by key."""

    lefts: Groups = field(default_factory=dict)
    rights: Groups = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PairJoinAcrossEpochs:
    """Pairs the records of an epoch with each other and with those of all epochs before. Linear in what is new."""

    keys: KeyFunctions

    def start(self) -> KeptGroups:
        """Return what is kept before the first epoch."""
        return KeptGroups()

    def process(self, kept: KeptGroups, epoch: GatheredEpoch) -> Sequence[list[Batch]]:
        """Return the pairs that an epoch brings; the records are kept."""
        lefts, _ = _matchable(epoch.batches[0], self.keys, 0)
        rights, _ = _matchable(epoch.batches[1], self.keys, 1)
        found = pairs(kept.lefts, rights)
        _add(kept.rights, rights)
        found += pairs(lefts, kept.rights)
        _add(kept.lefts, lefts)
        return ([found],)


def _add(kept: Groups, new: Groups) -> None:
    for key, added in new.items():
        kept.setdefault(key, []).extend(added)
