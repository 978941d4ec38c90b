"""Checks what workers report of what they did: whole steps, in order, and nothing left out."""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from typing import TypeAlias

from tests.kit.simulation.violation import ViolationError
from tests.simulation.workers.counts import Counts, add, difference
from tidewheel.progress import ProgressBatch
from tidewheel.runtime.messages.envelope import Envelope
from tidewheel.runtime.worker.worker_core import WorkerCore

_Link: TypeAlias = tuple[int, int]


class Reports(ABC):
    """The books on what has been sent and what has arrived.

    What is on its way is kept here, in the order in which it was sent: a link that loses, repeats or reorders, or a
    worker that applies something else, makes a view differ from what is expected of it.

    Args:
        cores: the workers.
        initial: what each worker's view is to start from.
        hold_back: whether what moves no frontier is to wait.
    """

    def __init__(self, cores: Sequence[WorkerCore], initial: Counts, *, hold_back: bool) -> None:
        self._cores = cores
        self._hold_back = hold_back
        self._on_the_way: dict[_Link, deque[ProgressBatch]] = {}
        self._views = [dict(initial) for _ in cores]
        for worker in range(len(cores)):
            self._check_view(worker)

    def stepped(self, worker: int, done: Counts, sent: Sequence[tuple[int, Envelope]]) -> None:
        """Check a step.

        Args:
            worker: the worker that took it.
            done: all that this worker has really done since the start.
            sent: what the step returned.
        """
        for receiver, envelope in sent:
            if not (envelope.messages or envelope.progress or envelope.credit):
                raise ViolationError("envelope", f"worker {worker} sent an envelope with nothing in it to {receiver}")
            if any(not count for _, count in envelope.progress):
                raise ViolationError("envelope", f"worker {worker} reported a change by 0: {envelope.progress}")
            self._on_the_way.setdefault((worker, receiver), deque()).append(list(envelope.progress))
        self._account(worker, done, [(receiver, envelope.progress) for receiver, envelope in sent if envelope.progress])
        self._check_view(worker)

    def delivered(self, sender: int, receiver: int) -> None:
        """Check what came of the oldest envelope of a link."""
        batch = self._on_the_way[sender, receiver].popleft()
        if batch:
            self._arrive(sender, receiver, batch)
        self._check_view(receiver)

    @abstractmethod
    def _account(self, worker: int, done: Counts, sent: Sequence[tuple[int, ProgressBatch]]) -> None:
        """Check what a worker has sent against what it has done."""

    @abstractmethod
    def _arrive(self, sender: int, receiver: int, batch: ProgressBatch) -> None:
        """Enter a batch that has arrived."""

    def _check_view(self, worker: int) -> None:
        core = self._cores[worker]
        found = core.view()
        if found != self._views[worker]:
            self._fail("view", f"worker {worker} counts other than the sum of what it has", found, self._views[worker])
        if core.is_complete != (core.is_idle and max(found.values(), default=0) <= 0):
            raise ViolationError("complete", f"worker {worker}: is_complete is {core.is_complete}, it counts {found}")

    def _check_whole(self, worker: int, receiver: int, reported: Counts, done: Counts) -> None:
        if reported != done:
            what = f"what worker {worker} has told {receiver} is not all that has been done"
            self._fail("whole steps", what, reported, done)

    def _check_unreported(self, worker: int, reported: Counts, done: Counts) -> None:
        found = dict(self._cores[worker]._progress.unsent())
        expected = difference(done, reported)
        if found != expected:
            self._fail("held back", f"worker {worker} holds back other than what it has not told", found, expected)

    def _check_timely(self, worker: int, batch: ProgressBatch, held: Counts, *, takes_away: bool) -> None:
        """Check that what may wait does, and what may not does not.

        Args:
            worker: a worker that has taken a step, and has peers.
            batch: the batch that it has sent, empty if it has sent none.
            held: what it held back before that step.
            takes_away: whether the batch has something in it that can move a frontier.
        """
        if not self._hold_back and self._cores[worker]._progress.unsent():
            raise ViolationError("timely", f"worker {worker} holds back {self._cores[worker]._progress.unsent()}")
        if self._hold_back and batch and not held and not takes_away:
            raise ViolationError("timely", f"worker {worker} did not hold back {batch}")

    def _fail(self, check: str, what: str, found: Counts, expected: Counts) -> None:
        core = self._cores[0]
        wrong = ", ".join(
            f"{count:+d} at {core.plan.describe(core.location(location))} for {time!r}"
            for (location, time), count in difference(found, expected).items()
        )
        raise ViolationError(check, f"{what}: {wrong}")


class BroadcastReports(Reports):
    """Each worker owes each other worker the sum of its own steps, and its own view has them at once."""

    def __init__(self, cores: Sequence[WorkerCore], initial: Counts, *, hold_back: bool) -> None:
        super().__init__(cores, initial, hold_back=hold_back)
        self._done: list[Counts] = [{} for _ in cores]
        self._told: list[list[Counts]] = [[{} for _ in cores] for _ in cores]

    def _account(self, worker: int, done: Counts, sent: Sequence[tuple[int, ProgressBatch]]) -> None:
        if len(self._cores) > 1:
            self._check_sent(worker, done, sent)
        elif self._cores[worker]._progress.unsent():
            raise ViolationError("timely", "a single worker has nobody to tell, and holds something back")
        add(self._views[worker], done.items())
        add(self._views[worker], self._done[worker].items(), -1)
        self._done[worker] = done

    def _check_sent(self, worker: int, done: Counts, sent: Sequence[tuple[int, ProgressBatch]]) -> None:
        peers = [peer for peer in range(len(self._cores)) if peer != worker]
        held = difference(self._done[worker], self._told[worker][peers[0]])
        for receiver, batch in sent:
            add(self._told[worker][receiver], batch)
            self._check_whole(worker, receiver, self._told[worker][receiver], done)
        for peer in peers:
            self._check_unreported(worker, self._told[worker][peer], done)
        spread = sent[0][1] if sent else []
        self._check_timely(worker, spread, held, takes_away=any(change < 0 for _, change in spread))

    def _arrive(self, sender: int, receiver: int, batch: ProgressBatch) -> None:
        add(self._views[receiver], batch)


class AccumulatedReports(Reports):
    """Each worker owes the accumulator the sum of its steps; that one owes all the sum of what it has heard and done.

    A worker's own steps, too, are in its view only when they come back.
    """

    ACCUMULATOR = 0

    def __init__(self, cores: Sequence[WorkerCore], initial: Counts, *, hold_back: bool) -> None:
        super().__init__(cores, initial, hold_back=hold_back)
        self._done: list[Counts] = [{} for _ in cores]
        self._told: list[Counts] = [{} for _ in cores]
        self._gathered: Counts = {}
        self._published: list[Counts] = [{} for _ in cores]

    def _account(self, worker: int, done: Counts, sent: Sequence[tuple[int, ProgressBatch]]) -> None:
        if worker == self.ACCUMULATOR:
            self._account_published(done, sent)
        else:
            self._account_told(worker, done, sent)
        self._done[worker] = done

    def _account_told(self, worker: int, done: Counts, sent: Sequence[tuple[int, ProgressBatch]]) -> None:
        told = self._told[worker]
        held = difference(self._done[worker], told)
        for receiver, batch in sent:
            add(told, batch)
            self._check_whole(worker, receiver, told, done)
        self._check_unreported(worker, told, done)
        spread = sent[0][1] if sent else []
        self._check_timely(worker, spread, held, takes_away=any(change < 0 for _, change in spread))

    def _account_published(self, done: Counts, sent: Sequence[tuple[int, ProgressBatch]]) -> None:
        worker, view = self.ACCUMULATOR, self._views[self.ACCUMULATOR]
        held = difference(self._gathered, self._published[-1])
        add(self._gathered, difference(done, self._done[worker]).items())
        for receiver, batch in sent:
            add(self._published[receiver], batch)
            self._check_whole(worker, receiver, self._published[receiver], self._gathered)
        self._check_published()
        spread = sent[0][1] if sent else []
        gone = any(0 < view.get(pointstamp, 0) <= -change for pointstamp, change in spread)
        self._check_timely(worker, spread, held, takes_away=gone)
        add(view, spread)

    def _arrive(self, sender: int, receiver: int, batch: ProgressBatch) -> None:
        if receiver == self.ACCUMULATOR:
            add(self._gathered, batch)
            self._check_published()
        else:
            add(self._views[receiver], batch)

    def _check_published(self) -> None:
        for receiver, published in enumerate(self._published):
            if receiver != self.ACCUMULATOR:
                self._check_unreported(self.ACCUMULATOR, published, self._gathered)
