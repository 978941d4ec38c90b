"""Rescaling: the division of operators' state among a different number of workers.

The pact of the input decides where records go. State by key goes to the worker that owns the key, common state to every
worker, and any other state to worker 0. A part that is None does not exist.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from tidewheel.batches.batches import Batch
from tidewheel.runtime.description.pacts import Pact, RebalancePact
from tidewheel.runtime.description.shards import owners_of
from tidewheel.runtime.state.operator_state import Merge, Split
from tidewheel.runtime.worker.operator_context import OperatorContext

State = TypeVar("State")


class Division(NamedTuple):
    """The functions that divide a state among workers, and merge the parts of several workers."""

    split: Split
    merge: Merge

    def state(self, context: OperatorContext, name: str, make: Callable[[], State]) -> State:
        return context.state(name, make, split=self.split, merge=self.merge)

    def of_each(self) -> "Division":
        """Return the division of a dict, such as state by time, each of whose values is divided this way."""

        def split(states: dict[Any, Any], workers: int) -> list[dict[Any, Any]]:
            shares: list[dict[Any, Any]] = [{} for _ in range(workers)]
            for name, state in states.items():
                for share, part in zip(shares, self.split(state, workers), strict=True):
                    if part is not None:
                        share[name] = part
            return shares

        def merge(one: dict[Any, Any], other: dict[Any, Any]) -> dict[Any, Any]:
            for name, part in other.items():
                one[name] = self.merge(one[name], part) if name in one else part
            return one

        return Division(split, merge)


def split_by_key(states: dict[Any, Any], workers: int) -> list[dict[Any, Any] | None]:
    shares: list[dict[Any, Any]] = [type(states)() for _ in range(workers)]
    for (key, state), owner in zip(states.items(), owners_of(list(states), workers), strict=True):
        shares[owner][key] = state
    return [share or None for share in shares]


def updated(one: dict[Any, Any], other: dict[Any, Any]) -> dict[Any, Any]:
    """Merge two states with different keys into one dict. Counters may share keys: their counts are added."""
    one.update(other)
    return one


def split_batches(batches: Sequence[Batch], pact: Pact | None, workers: int) -> list[list[Batch]]:
    """Divide records among workers, by the pact or, without one, in equal shares; always in the same way."""
    pact = RebalancePact() if pact is None else pact.for_worker(0)
    shares: list[list[Batch]] = [[] for _ in range(workers)]
    for batch in batches:
        for share, part in zip(shares, pact.split(batch, workers), strict=True):
            if part is not None:
                share.append(part)
    return shares


def by_input(pacts: Sequence[Pact | None]) -> Division:
    """Return the division of batches that are kept separately for each input."""

    def split(sides: list[list[Batch]], workers: int) -> list[list[list[Batch]] | None]:
        divided = [split_batches(batches, pact, workers) for batches, pact in zip(sides, pacts, strict=True)]
        shares = [list(share) for share in zip(*divided, strict=True)]
        return [share if any(share) else None for share in shares]

    def merge(one: list[list[Batch]], other: list[list[Batch]]) -> list[list[Batch]]:
        return [mine + others for mine, others in zip(one, other, strict=True)]

    return Division(split, merge)


def at_first(merge: Merge) -> Division:
    """Return the division of a state without keys: all of it goes to worker 0."""
    return Division(lambda state, workers: [state, *[None] * (workers - 1)], merge)


def everywhere(merge: Merge) -> Division:
    """Return the division of a state that all workers have in common."""
    return Division(lambda state, workers: [state] * workers, merge)
