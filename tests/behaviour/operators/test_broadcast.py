"""The broadcast operator."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given

import tidewheel as tw
from tests.kit.operators.harness import KINDS, Case, bags, cases, operator_settings, run, send, tag_with_worker


@operator_settings()
@given(cases())
def test_every_worker_gets_every_record_once(case: Case) -> None:
    """Whichever worker has a record, each gets it, at its time."""
    found = bags(run(lambda stream: stream.broadcast().unary(tag_with_worker, name="tag"), case))
    wanted: dict[int, Counter[Any]] = {}
    for time, numbers in case.feed:
        for number in numbers:
            wanted.setdefault(time, Counter()).update((number, worker) for worker in range(case.workers))
    assert found == wanted


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_batch_is_one_message_for_each_worker(kind: Any) -> None:
    """Batches are neither taken apart nor copied where nothing has to leave the process."""
    seen: list[Any] = []
    flow = tw.Dataflow("test")
    sent = flow.input("numbers").inspect_batches(lambda batch, time, worker: seen.append(batch))
    sent.broadcast().capture("results")
    with tw.run(flow, workers=3, engine="local") as job:
        send(job, "numbers", [(0, [1, 2, 3])], kind)
        job.wait()
        results = job.captured("results")
        edge = next(edge for edge in job.statistics().edges if edge.target == "input 0 of 'broadcast'")
    assert [result.batch is seen[0] for result in results] == [True] * 3
    assert (edge.messages, edge.records) == (3, 9)
