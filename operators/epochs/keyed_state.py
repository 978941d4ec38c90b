"""State by key that lasts from epoch to epoch.

Epochs are processed one after the other, in order; in a loop, all rounds of an epoch come before the next epoch.
Unordered times of a user's domain are processed as they complete.
"""

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from reprlib import repr as short
from typing import Any, Protocol, TypeAlias

from tidewheel.batches.batches import Batch
from tidewheel.operators.base.setting_aside import Aside, Caught, letter
from tidewheel.operators.epochs.gathered_epochs import build_gathered, joined
from tidewheel.operators.epochs.key_fold import KeyFold
from tidewheel.operators.keys.record_keys import Keys
from tidewheel.operators.keys.record_order import Order
from tidewheel.runtime.description.plan import Build
from tidewheel.runtime.description.shards import owners_of
from tidewheel.runtime.state.operator_state import Owners

Kept: TypeAlias = dict[Any, Any]
"""The state of each key."""


class EpochStep(Protocol):
    """The processing of a complete epoch by an operator."""

    def process(self, kept: Kept, batches: list[Batch]) -> Batch:
        """Return the results of the records in ``batches``; change ``kept`` in place."""


def build_keyed_state(step: EpochStep, owners: Owners = owners_of) -> Build:
    """Build an operator that processes whole epochs, one after the other, and keeps state by key."""

    def process(kept: Kept, batches: list[list[Batch]], _: object) -> Sequence[list[Batch]]:
        return ([step.process(kept, batches[0])],)

    return build_gathered(1, process, lambda context: context.keyed_state("kept", owners=owners), sequential=True)


def _rows_by_key(keys: Keys, batches: list[Batch], order: Order | None) -> dict[Any, list[Any]]:
    batch = joined(batches)
    if order is not None and order.uses_columns(batch):
        return keys.grouped(order.sorted(batch))
    groups = keys.grouped(batch)
    if order is None:
        return groups
    return {key: order.sorted(rows) if len(rows) > 1 else rows for key, rows in groups.items()}


@dataclass(frozen=True, slots=True)
class Accumulation:
    """Adds records to the states of their keys; the results are the states that have changed."""

    fold: KeyFold
    caught: Caught = ()

    def process(self, kept: Kept, batches: list[Batch]) -> Batch:
        changed: Kept = {}
        failed: list[Any] = []
        for key, rows in _rows_by_key(self.fold.keys, batches, None).items():
            if self.caught:
                states = {key: kept[key]} if key in kept else {}
                refused = self.fold.fold_each(states, key, rows, self.caught)
                failed += refused
                if len(refused) < len(rows):
                    changed.update(states)
            else:
                changed[key] = self.fold.fold_rows(kept[key], rows) if key in kept else self.fold.begin(rows)
        kept.update(changed)
        if self.fold.result is not None:
            return self.fold.results(changed) + failed
        # ``add`` may change the state in place, and a result that was sent must not change with it.
        return [(key, copy(state)) for key, state in changed.items()] + failed


@dataclass(frozen=True, slots=True)
class StatefulMap:
    """Calls ``step(state, record)``, which returns (state, result), with the records of each key in turn."""

    keys: Keys
    start: Callable[[], Any]
    step: Callable[..., Any]
    order: Order | None
    caught: Caught = ()

    def process(self, kept: Kept, batches: list[Batch]) -> Batch:
        """Return the result, or the letter, of each record; forget a key whose state is None."""
        results: list[Any] = []
        for key, rows in _rows_by_key(self.keys, batches, self.order).items():
            state = kept.get(key)  # None is never kept
            for record in rows:
                try:
                    returned = self.step(self.start() if state is None else state, record)
                except self.caught as error:
                    results.append(Aside(letter(record, error)))
                    error.__traceback__ = None  # it grows each time that a function raises the same object
                    continue
                if not isinstance(returned, tuple) or len(returned) != 2:
                    raise TypeError(f"step must return a pair (state, result), not {short(returned)}{_at(key, record)}")
                state, result = returned
                results.append(result)
            if state is not None:
                kept[key] = state
            else:
                kept.pop(key, None)
        return results


def _at(key: Any, record: Any) -> str:
    return f", for the record {short(record)} of the key {short(key)}"
