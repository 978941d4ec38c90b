"""Programs of collections whose workers are replaced by others every now and then."""

from collections.abc import Sequence
from random import Random
from typing import Any

import tidewheel as tw
from tests.kit.collections.programs import INPUTS, Change
from tests.kit.runtime.snapshot_group import SnapshotGroup

NAMES = [f"input {number}" for number in range(INPUTS)]


def replaced(
    flow: tw.Dataflow,
    history: Sequence[tuple[Change, Any]],
    kind: type[SnapshotGroup],
    workers: int,
    random: Random,
) -> Sequence[tuple[int, Any]]:
    """Return the batches that a dataflow captures under the name "changes", with their epochs.

    Args:
        flow: a dataflow with inputs that have `NAMES`.
        history: changes, and the batch that is sent for each.
        kind: the class of the workers.
        workers: the number of the first ones.
        random: decides when they are replaced, and by how many.
    """
    group = kind(flow, workers, random)
    try:
        for change, batch in history:
            for name in NAMES:
                if change.epoch > group._times[name]:
                    group.advance(name, change.epoch)
            group.send(NAMES[change.input], batch)
            group.run_for(30)
            if random.random() < 0.5:
                group.take_snapshot()
                group.run_for(10)
                if random.random() < 0.6:
                    group = group.gone_on(random.choice((1, 2, 3)))
        for name in NAMES:
            group.close(name)
        group.run_for(30)
        group.take_snapshot()
        group = group.gone_on(random.choice((1, 2, 3)))
        group.finish()
    finally:
        group.close_all()
    return group.captured("changes")
