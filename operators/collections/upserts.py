"""Upserts: pairs (key, value) that replace those with the same key, turned into updates of a collection."""

from itertools import chain
from operator import add
from typing import Any

from tidewheel.batches.batches import Batch, records
from tidewheel.batches.one_nan import with_one_nan
from tidewheel.differential.records import encode
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


def build_upserts(context: OperatorContext) -> Schedule:
    """Build an operator that sends, when an epoch is complete, the updates that result from its pairs."""
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
