"""A stream that several operators read."""

from typing import Any

import pytest

import tidewheel as tw
from tests.kit.operators.harness import KINDS, send

NUMBERS = [1, 2, 3]


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_readers_of_one_stream_get_the_same_object(kind: Any, workers: int) -> None:
    """On a worker, a batch is neither copied nor pickled for those who read it, however many there are."""
    seen: dict[str, list[tuple[int, Any]]] = {"one": [], "two": [], "in a loop": []}

    def look(name: str) -> Any:
        return lambda batch, time, worker: seen[name].append((worker, batch))

    flow = tw.Dataflow("test")
    stream = flow.input("numbers").map_batches(lambda batch: batch[:])
    stream.inspect_batches(look("one"))
    stream.concat().inspect_batches(look("two")).capture("results")
    stream.enter(flow.scope("loop")).inspect_batches(look("in a loop"))
    with tw.run(flow, workers=workers, engine="local") as job:
        send(job, "numbers", [(0, NUMBERS), (0, NUMBERS), (1, NUMBERS)], kind)
        job.wait()
        results = job.captured("results")
    identities = [sorted((worker, id(batch)) for worker, batch in batches) for batches in seen.values()]
    assert identities[0] == identities[1] == identities[2]
    assert len(set(identities[0])) == 3
    assert sorted(id(result.batch) for result in results) == sorted(identity for _, identity in identities[0])
