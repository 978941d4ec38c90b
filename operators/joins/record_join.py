"""Joins of records by key, in dicts: pairs within an epoch or across epochs, and groups of both sides."""

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

from tidewheel.batches.batches import Batch, is_numpy, records
from tidewheel.operators.epochs.gathered_epochs import build_gathered
from tidewheel.operators.joins.join_keys import Groups, JoinKeys, split_off_unmatchable
from tidewheel.operators.joins.unlike_keys import UnlikeKeys
from tidewheel.operators.keys.arrow_rows import as_table
from tidewheel.runtime.description.plan import Build
from tidewheel.runtime.worker.operator_context import OperatorContext

How: TypeAlias = Literal["inner", "left", "right", "outer"]
"""The side whose records without a partner are kept, with None in the partner's place."""

Pair: TypeAlias = tuple[Any, Any]

_Kept: TypeAlias = tuple[Groups, Groups, UnlikeKeys]


def build_pair_join(keys: JoinKeys, how: How) -> Build:
    """Build an operator that pairs the records of each epoch by equal keys; linear in records and pairs."""

    def process(kept: UnlikeKeys, batches: list[list[Batch]], token: object) -> Sequence[list[Batch]]:
        (lefts, lonely_lefts), (rights, lonely_rights) = _matchable(batches, keys)
        kept.compare(lefts, rights)
        found = pairs(lefts, rights)
        if how in {"left", "outer"}:
            found += [(record, None) for key in lefts if key not in rights for record in lefts[key]]
            found += [(record, None) for record in lonely_lefts]
        if how in {"right", "outer"}:
            found += [(None, record) for key in rights if key not in lefts for record in rights[key]]
            found += [(None, record) for record in lonely_rights]
        return ([found],)

    return build_gathered(2, process, UnlikeKeys)


def build_pair_join_across_epochs(keys: JoinKeys) -> Build:
    """Build an operator that pairs new records with each other and with all earlier records.

    Linear in the new records and pairs.
    """

    def process(kept: _Kept, batches: list[list[Batch]], token: object) -> Sequence[list[Batch]]:
        kept_lefts, kept_rights, unlike_keys = kept
        (lefts, _), (rights, _) = _matchable(batches, keys)
        found = pairs(kept_lefts, rights)
        _add(kept_rights, rights)
        found += pairs(lefts, kept_rights)
        _add(kept_lefts, lefts)
        unlike_keys.compare(kept_lefts, kept_rights)
        return ([found],)

    def keep(context: OperatorContext) -> _Kept:
        return context.keyed_state("lefts"), context.keyed_state("rights"), UnlikeKeys(context)

    return build_gathered(2, process, keep)


def build_cogroup(keys: JoinKeys) -> Build:
    """Build an operator that gathers the records of both sides by key, for each epoch; linear in records."""

    def process(kept: UnlikeKeys, batches: list[list[Batch]], token: object) -> Sequence[list[Batch]]:
        lefts, rights = _grouped(batches, keys)
        kept.compare(lefts, rights)
        both = dict.fromkeys([*lefts, *rights])
        return ([[(key, lefts.get(key, []), rights.get(key, [])) for key in both]],)

    return build_gathered(2, process, UnlikeKeys)


def pairs(lefts: Groups, rights: Groups) -> list[Pair]:
    """Return the pairs of records with equal keys. Linear in the side with fewer keys and in the result.

    >>> pairs({1: ["a"], 2: ["b"]}, {2: ["x", "y"], 3: ["z"]})
    [('b', 'x'), ('b', 'y')]
    """
    few, many = (lefts, rights) if len(lefts) <= len(rights) else (rights, lefts)
    return [(left, right) for key in few if key in many for left in lefts[key] for right in rights[key]]


def _matchable(batches: list[list[Batch]], keys: JoinKeys) -> list[tuple[Groups, list[Any]]]:
    return [(groups, split_off_unmatchable(groups)) for groups in _grouped(batches, keys)]


def _grouped(batches: list[list[Batch]], keys: JoinKeys) -> list[Groups]:
    if keys.are_columns:
        batches = [[as_table(batch) if is_numpy(batch) else batch for batch in side] for side in batches]
    rows = [[record for batch in side for record in records(batch)] for side in batches]
    return [side.grouped(found) for side, found in zip(keys, rows, strict=True)]


def _add(kept: Groups, new: Groups) -> None:
    for key, added in new.items():
        kept.setdefault(key, []).extend(added)
