"""Substreams on Ray actors: what has gone round a loop between two workers, and when it has ended."""

import random
from collections import Counter
from typing import Any

import pytest

import tidewheel as tw

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_cluster")]

DEADLINE_S = 60.0
EPOCHS = 20
KEYS = 30


def on_workers(*cases: tuple[int, int], often: int) -> pytest.MarkDecorator:
    """Run a test on each number of workers with its seed: in every run on ``often`` workers, else in long ones."""
    marked = [pytest.param(*case, marks=[] if case[0] == often else pytest.mark.long) for case in cases]
    return pytest.mark.parametrize(("workers", "seed"), marked)


def halve(walks: tw.Stream[Any]) -> tuple[tw.Stream[Any], tw.Stream[Any]]:
    moved = walks.exchange(lambda walk: walk[1]).map(lambda walk: (walk[0], walk[1] // 2))
    return moved.filter(lambda walk: walk[1] > 0), moved


@pytest.mark.parametrize("link", ["socket", pytest.param("ray", marks=pytest.mark.long)])
def test_answers_come_when_all_of_a_request_has_ended(link: Any) -> None:
    """Keys of each epoch are used again in the next; the answers are those of a batch computation."""
    flow = tw.Dataflow("walks")
    walks = flow.input("walks").substreams("walks", lambda walk: walk[0])
    lengths = walks.iterate(halve).collect_substream(lambda key, steps: (key, len(steps)))
    lengths.probe("answered").capture("lengths")
    expected: Counter[Any] = Counter()
    with tw.run(flow, workers=2, config=tw.RuntimeConfig(link=link)) as job:
        with job.input("walks") as handle:
            for epoch in range(EPOCHS):
                handle.advance_to(epoch)
                walks_of_epoch = [(key, (epoch + 1) * (key + 7 * part + 1)) for key in range(KEYS) for part in range(3)]
                for part in range(3):
                    handle.send(walks_of_epoch[part::3])
                handle.end_substream(*range(KEYS))
                steps = Counter[int]()
                for key, number in walks_of_epoch:
                    steps[key] += number.bit_length()
                expected.update((epoch, key, many) for key, many in steps.items())
            handle.advance_to(EPOCHS)
            job.probe("answered").wait_until(EPOCHS, DEADLINE_S)
        job.wait(DEADLINE_S)
        assert Counter((entry.time, *row) for entry in job.captured("lengths") for row in entry.batch) == expected


def in_pieces(context: Any) -> Any:
    """Build an operator that puts together what comes between two ends: (key, numbers, whether all are of the key)."""
    piece: list[Any] = []
    tokens: list[Any] = []

    def schedule(input: Any, output: Any) -> None:
        for token, batch in input:
            if not tokens:
                tokens.append(token.retain())
            piece.extend(batch)
        for key in input.ended:
            if tokens:
                with tokens.pop() as token:
                    output.send(token, [(key, sorted(n for _, n in piece), {k for k, _ in piece} == {key})])
                piece.clear()

    return schedule


@on_workers((1, 21), (2, 22), (3, 23), (4, 24), often=3)
def test_both_bounds_answer_as_a_batch_computation(workers: int, seed: int) -> None:
    """With keys that are used again in each epoch, and records of each that come from all workers."""
    generator = random.Random(seed)
    epochs = [[(generator.randrange(8), generator.randrange(100)) for _ in range(40)] for _ in range(6)]
    expected = sorted(
        (key, sorted(n for k, n in sent if k == key)) for sent in epochs for key in {key for key, _ in sent}
    )
    flow = tw.Dataflow("both")
    lines = flow.input("lines").substreams("lines", lambda line: line[0])
    scattered = lines.exchange(lambda line: line[1])
    pieces = scattered.unary(in_pieces, lambda line: line[0], bound="firm", name="pieces")
    pieces.collect_substream(lambda key, found: found).capture("firm")
    scattered.collect_substream(lambda key, rows: (key, sorted(n for _, n in rows))).capture("soft")
    with tw.run(flow, workers=workers) as job:
        with job.input("lines") as handle:
            for epoch, sent in enumerate(epochs):
                handle.advance_to(epoch)
                for part in range(3):
                    handle.send(sent[part::3])
                handle.end_substream(*range(8))
        job.wait(DEADLINE_S)
        firm = [row for entry in job.captured("firm") for found in entry.batch for row in found]
        soft = sorted(row for entry in job.captured("soft") for row in entry.batch)
    assert soft == expected, f"with seed {seed}"
    assert all(alone for *_, alone in firm), f"with seed {seed}"
    assert sorted((key, numbers) for key, numbers, _ in firm) == expected, f"with seed {seed}"


@on_workers((1, 31), (2, 32), (3, 33), (4, 34), often=2)
def test_predicates_answer_as_a_batch_computation(workers: int, seed: int) -> None:
    """Of which records may be in several substreams; one ends before the others."""
    generator = random.Random(seed)
    epochs = [[generator.randrange(100) for _ in range(40)] for _ in range(6)]
    predicates = {"even": lambda n: n % 2 == 0, "small": lambda n: n < 30, "none": lambda n: n < 0}
    flow = tw.Dataflow("named")
    divided = flow.input("numbers").substreams("named", predicates=predicates)
    scattered = divided.exchange(lambda n: n)
    scattered.collect_substream(lambda name, rows: (name, sorted(rows))).capture("named")
    with tw.run(flow, workers=workers) as job:
        with job.input("numbers") as handle:
            for epoch, sent in enumerate(epochs):
                handle.advance_to(epoch)
                for part in range(3):
                    handle.send([n if epoch < 3 else 2 * n + 1 for n in sent[part::3]])
                if epoch == 2:
                    handle.end_substream("even")
        job.wait(DEADLINE_S)
        found = dict(row for entry in job.captured("named") for row in entry.batch)
    numbers = [n if epoch < 3 else 2 * n + 1 for epoch, sent in enumerate(epochs) for n in sent]
    expected = {name: sorted(filter(holds, numbers)) for name, holds in predicates.items()}
    assert found == {name: rows for name, rows in expected.items() if rows}, f"with seed {seed}"


def test_the_last_record_of_a_key_ends_it() -> None:
    """By a rule, at the worker that owns the key, for a stream that is read by a source."""
    rows = [(n, n % 5) for n in range(1000)]
    flow = tw.Dataflow("orders")
    lines = flow.source("lines", tw.IterableSource([[(0, rows[start : start + 50]) for start in range(0, 1000, 50)]]))
    orders = lines.substreams("orders", lambda row: row[0] // 5, last=lambda row: row[1] == 4)
    orders.collect_substream(lambda key, lines: (key, len(lines))).capture("orders")
    with tw.run(flow, workers=2) as job:
        job.wait(DEADLINE_S)
        found = sorted(row for entry in job.captured("orders") for row in entry.batch)
    assert found == [(key, 5) for key in range(200)]
