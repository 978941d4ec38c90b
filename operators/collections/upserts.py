"""Upserts, pairs (key, value) that replace the key's previous pair: their conversion to updates and back."""

from itertools import chain
from operator import add
from typing import Any

from tidewheel.batches.batches import Batch, records
from tidewheel.batches.one_nan import with_one_nan
from tidewheel.differential.records import as_pairs, decode, diffs_of, encode
from tidewheel.operators.base.division import Division, split_batches
from tidewheel.progress import Time
from tidewheel.runtime.description.plan import Schedule
from tidewheel.runtime.worker.operator_context import OperatorContext, pacts_of
from tidewheel.runtime.worker.ports import InputPort, OutputPort


def key_of(record: Any) -> Any:
    """Return the key of an upsert; raise TypeError if it is not a pair."""
    if not (isinstance(record, tuple) and len(record) == 2):
        raise TypeError(f"as_collection(upserts=True) takes pairs (key, value), not {record!r}")
    return record[0]


def build_from_upserts(context: OperatorContext) -> Schedule:
    """Build an operator that converts the upserts of each complete epoch to updates."""
    pact = pacts_of(context)[0]
    parts = Division(lambda batches, workers: split_batches(batches, pact, workers), add)
    held: dict[Time, list[Batch]] = parts.of_each().state(context, "held", dict)
    present = context.keyed_state("present")
    notificator = context.notificator()

    def schedule(input: InputPort, output: OutputPort) -> None:
        for lent, batch in input:
            held.setdefault(lent.time, []).append(batch)
            notificator.notify_at(lent)
        for token in notificator.ready(input):
            arrived = chain.from_iterable(map(records, held.pop(token.time, [])))
            last = {with_one_nan(key): value for key, value in arrived}
            updates = []
            for key, value in last.items():
                before = present.get(key)
                if before == value and before is not None:
                    continue
                if before is not None:
                    updates.append(((key, before), -1))
                    del present[key]
                if value is not None:
                    updates.append(((key, value), 1))
                    present[key] = value
            if updates:
                output.send(token, encode([pair for pair, _ in updates], [count for _, count in updates]))

    return schedule


def build_to_upserts(context: OperatorContext) -> Schedule:
    """Build an operator that sends, for each complete epoch, an upsert for each key whose value has changed.

    It keeps each key's current value, and raises an error if a key has two values.
    """
    pact = pacts_of(context)[0]
    parts = Division(lambda batches, workers: split_batches(batches, pact, workers), add)
    held: dict[Time, list[Batch]] = parts.of_each().state(context, "held", dict)
    present = context.keyed_state("present")
    notificator = context.notificator()

    def schedule(input: InputPort, output: OutputPort) -> None:
        for lent, batch in input:
            held.setdefault(lent.time, []).append(as_pairs(batch, f"operator {context.name!r}"))
            notificator.notify_at(lent)
        for token in notificator.ready(input):
            pairs = []
            for key, counts in _changed(held.pop(token.time, [])).items():
                value = _only_value(key, present.pop(key, None), counts)
                if value is not None:
                    present[key] = value
                pairs.append((key, value))
            if pairs:
                output.send(token, pairs)

    return schedule


def _changed(arrays: list[Batch]) -> dict[Any, dict[Any, int]]:
    """Return, by key, the changes of the counts of its values; without changes of 0."""
    counts: dict[Any, dict[Any, int]] = {}
    for array in arrays:
        for (key, value), count in zip(decode(array), diffs_of(array).tolist(), strict=True):
            of_key, same = counts.setdefault(with_one_nan(key), {}), with_one_nan(value)
            of_key[same] = of_key.get(same, 0) + count
    return {key: changed for key, of_key in counts.items() if (changed := {v: n for v, n in of_key.items() if n})}


def _only_value(key: Any, before: Any, changed: dict[Any, int]) -> Any:
    """Return a key's only value, None if there is none; raise ValueError for anything else."""
    counts = dict(changed)
    if before is not None:
        before = with_one_nan(before)  # an unpickled one is another object
        counts[before] = counts.get(before, 0) + 1
    values = [value for value, count in counts.items() if count]
    if not values:
        return None
    if len(values) == 1 and counts[values[0]] == 1 and values[0] is not None:
        return values[0]
    found = ", ".join(f"{value!r:.100} ({counts[value]} times)" for value in values[:3])
    raise ValueError(
        f"upserts() sends one value of each key, other than None, and the key {key!r:.100} has {found}. Choose one "
        "before, for example with reduce_max(), or count equal records once with distinct()"
    )
