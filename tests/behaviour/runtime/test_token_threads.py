"""Tokens used from threads other than the worker's."""

import threading
from collections.abc import Callable
from typing import Any

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.runtime.one_operator import captured, feed, flow_of, scheduled, settle
from tests.kit.runtime.worker_group import WorkerGroup
from tidewheel.runtime.tokens.token_ledger import TokenLedger
from tidewheel.runtime.worker.ports import PortOwner

DEADLINE_S = 30.0
THREADS = 8


def in_threads(*works: Callable[[], None]) -> None:
    """Run functions at once, each in a thread of its own; raise what one of them raises."""
    barrier = threading.Barrier(len(works))
    errors: list[BaseException] = []

    def run(work: Callable[[], None]) -> None:
        try:
            barrier.wait(DEADLINE_S)
            work()
        except BaseException as error:  # noqa: BLE001 - whatever it is, the test fails with it
            errors.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_S)
        assert not thread.is_alive()
    if errors:
        raise errors[0]


def busy(token: tw.TimestampToken, rounds: int) -> None:
    """Clone, delay, downgrade and discard many times, and in the end discard the token itself."""
    for _ in range(rounds):
        with token.clone() as clone, clone.delayed(clone.time + 2) as later:
            clone.downgrade(clone.time + 1)
            later.downgrade(later.time + 1)
        token.downgrade(token.time + 1)
    token.discard()


def test_counts_end_at_zero_whatever_threads_do() -> None:
    """Each thread has a token of its own; a worker drains meanwhile, and in the end every time's count is zero."""
    ledger = TokenLedger()
    first = tw.TimestampToken(ledger, tw.progress.IntegerDomain(), 1, 0, PortOwner("holder"))
    tokens = [first.clone() for _ in range(THREADS)]
    counts: dict[Any, int] = {(1, 0): 1}
    working = threading.Event()

    def drain() -> None:
        for pointstamp, difference in ledger.drain():
            counts[pointstamp] = counts.get(pointstamp, 0) + difference

    def drain_while_they_work() -> None:
        while not working.wait(0):
            drain()

    drainer = threading.Thread(target=drain_while_they_work)
    drainer.start()
    in_threads(*(lambda token=token: busy(token, 200) for token in tokens))
    working.set()
    drainer.join(DEADLINE_S)
    drain()
    assert {pointstamp: count for pointstamp, count in counts.items() if count} == {(1, 0): 1}
    first.discard()
    drain()
    assert not any(counts.values())


def test_one_token_in_many_threads_is_counted_once() -> None:
    """All may clone the same token; only one of many that discard it at once succeeds."""
    ledger = TokenLedger()
    token = tw.TimestampToken(ledger, tw.progress.IntegerDomain(), 1, 0, PortOwner("holder"))
    refused: list[tw.errors.TokenError] = []

    def work() -> None:
        for _ in range(100):
            token.clone().discard()

    def discard() -> None:
        try:
            token.discard()
        except tw.errors.TokenError as error:
            refused.append(error)

    in_threads(*[work] * THREADS)
    in_threads(*[discard] * THREADS)
    assert len(refused) == THREADS - 1
    assert sum(difference for _, difference in ledger.drain()) == -1


def test_a_worker_that_steps_meanwhile_completes_in_the_end() -> None:
    """Threads use tokens of an operator while its worker runs; no frontier passes a live token, all ends at zero."""
    tokens: list[tw.TimestampToken] = []

    def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
        tokens.extend(lent.retain() for lent, _ in input)

    group = WorkerGroup(flow_of(scheduled(schedule)), workers=2)
    for number in range(THREADS):
        group.send("numbers", [number])
    group.close("numbers")
    group.run()
    assert len(tokens) == THREADS
    guard = tokens[0].clone()
    working = threading.Event()
    frontiers: list[set[Any]] = []

    def step_while_they_work() -> None:
        while not working.wait(0):
            group.run()
            frontiers.append(set(group.cores[0].probes.frontier("done")))

    stepper = threading.Thread(target=step_while_they_work)
    stepper.start()
    in_threads(*(lambda token=token: busy(token, 50) for token in tokens))
    working.set()
    stepper.join(DEADLINE_S)
    group.run()
    assert all(frontier == {0} for frontier in frontiers)
    assert set(group.cores[1].probes.frontier("done")) == {0}
    guard.discard()
    group.run()
    assert group.is_complete
    assert [list(core._tracker.counts()) for core in group.cores] == [[], []]


def test_a_token_that_another_thread_discards_lets_a_local_job_end() -> None:
    """A thread pool may hold the token of work that it was given; the job ends when it has let go."""
    tokens: list[tw.TimestampToken] = []
    with tw.run(flow_of(scheduled(lambda i, o: tokens.extend(lent.retain() for lent, _ in i))), engine="local") as job:
        feed(job, [1])
        with raises(tw.JobError):
            job.wait()
        in_threads(tokens[0].discard)
        job.wait()


def test_a_thread_that_finishes_while_the_job_waits_lets_it_end() -> None:
    """An operator that comes back to see whether its thread is done gets the result out at the right time."""

    def build(context: tw.OperatorContext) -> Any:
        running: list[tuple[threading.Thread, tw.TimestampToken, list[int]]] = []

        def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
            for lent, batch in input:
                results: list[int] = []
                thread = threading.Thread(target=lambda b=batch, r=results: r.extend(n * n for n in b))
                thread.start()
                running.append((thread, lent.retain(), results))
            if running:
                thread, token, results = running[0]
                thread.join(0)
                if not thread.is_alive():
                    running.pop(0)
                    with token:
                        output.send(token, results)
                context.activate()

        return schedule

    with tw.run(flow_of(build), engine="local") as job:
        feed(job, [2, 3], [4])
        job.wait(DEADLINE_S)
        assert captured(job) == [(0, [4, 9]), (1, [16])]


def test_a_downgrade_in_another_thread_lets_earlier_times_complete() -> None:
    """Each use of a token wakes the worker, which then tells everybody."""
    tokens: list[tw.TimestampToken] = []
    with tw.run(flow_of(scheduled(lambda i, o: tokens.extend(lent.retain() for lent, _ in i))), engine="local") as job:
        feed(job, [1])
        settle(job)
        in_threads(lambda: tokens[0].downgrade(5))
        job.probe("done").wait_until(5)
        assert not job.probe("done").has_completed(5)
        in_threads(tokens[0].discard)
        job.wait()
