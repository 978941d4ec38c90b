"""Workers driven by hand that stop at random moments, and go on from a snapshot: as many of them, more, or fewer."""

import time
from collections import deque
from collections.abc import Sequence
from random import Random
from threading import Event
from typing import Any, Self

import tidewheel as tw
from tests.kit.runtime.worker_group import WorkerGroup
from tidewheel.progress import SpreadName
from tidewheel.runtime.description.dataflow_description import description_of
from tidewheel.runtime.messages.envelope import Envelope
from tidewheel.runtime.state.part_file import read_worker, write_frozen, write_part
from tidewheel.runtime.state.saved_worker import SavedWorker, WorkerBeginning, beginning
from tidewheel.transport.socket_address import DRIVER

DEADLINE_S = 60.0
MOST_STEPS = 20_000
_STARVED = 0.99
"""The share of its turns in which a starved worker receives no records."""


class SnapshotGroup(WorkerGroup):
    """Workers of which snapshots are taken.

    Args:
        flow: the dataflow.
        workers: how many there are.
        random: decides who has its turn.
        beginnings: what each worker has of a snapshot.
        nodes: where the workers are; nowhere by default.
        protocol: ``progress`` and ``hold_back`` of the workers.
    """

    def __init__(
        self,
        flow: tw.Dataflow,
        workers: int,
        random: Random,
        beginnings: Sequence[WorkerBeginning] = (),
        nodes: Sequence[str] | None = None,
        **protocol: Any,
    ) -> None:
        self.flow = flow
        self.random = random
        self._woken = Event()
        self._since: list[tuple[str, int, Any]] = []
        self._times_then: dict[str, int] = {}
        self.files: list[list[bytes]] = [[] for _ in range(workers)]
        self._frozen: set[str] = set()  # the names of all frozen values that are in the files
        more: dict[str, Any] = {"is_tracked": True, "wake": self._woken.set, "clock": time.monotonic, "nodes": nodes}
        super().__init__(flow, workers, beginnings=beginnings, **more, **protocol)

    def send(self, name: str, batch: Any, worker: int | None = None) -> None:
        """Send a batch, by default to a random worker."""
        self._since.append((name, self._times[name], batch))
        super().send(name, batch, self.random.randrange(len(self.cores)) if worker is None else worker)

    def turn(self) -> None:
        """Let a random worker take a step, after it has received some of what is on its way to it."""
        worker = self.random.randrange(len(self.cores))
        for _ in range(self.random.randint(0, len(self.in_flight[worker]))):
            self.cores[worker].receive(self.in_flight[worker].popleft())
        self.step(worker)

    def finish(self) -> None:
        """Run until all workers know that nothing can happen any more; operators may wait for other threads.

        Sinks may wait for snapshots, which are taken, and are durable at once.
        """
        until = time.monotonic() + DEADLINE_S
        while not self.is_complete:
            self._woken.clear()
            self.run()
            if any(core.saving.awaited() >= 0 for core in self.cores):
                self.take_snapshot()
                self.tell_saved()
            elif not self.is_complete and all(core.is_idle for core in self.cores):
                assert time.monotonic() < until, f"there is no end within {DEADLINE_S} s"
                self._woken.wait(0.01)
        self.close_all()

    def close_all(self) -> None:
        """End on all workers, as if the processes were killed."""
        for core in self.cores:
            core.closing.close()

    def take_snapshot(self) -> None:
        """Begin a snapshot as the driver, and go on until all workers have taken their parts."""
        self.begin_snapshot()
        self.end_snapshot()

    def begin_snapshot(self) -> None:
        """Tell the workers, in any order, that a snapshot begins."""
        self.snapshot += 1
        self._since, self._times_then = [], dict(self._times)
        for worker in self.random.sample(range(len(self.cores)), len(self.cores)):
            self.tell(worker)

    def end_snapshot(self) -> None:
        """Go on until all workers have taken their parts."""
        for _ in range(MOST_STEPS):
            if all(core.memory.parts for core in self.cores):
                break
            self.turn()
        for core, files in zip(self.cores, self.files, strict=True):
            part = core.memory.parts.popleft()
            names = {name for one in part.operators.values() for name in one.kept.frozen}
            files += [b"".join(write_frozen(part, names - self._frozen)), b"".join(write_part(part))]
            self._frozen |= names

    def tell_saved(self) -> None:
        """Tell the workers that the last snapshot is durable."""
        for worker in range(len(self.cores)):
            self.tell(worker, saved=self.snapshot)

    def saved(self) -> list[SavedWorker]:
        """Return what the workers had at the last snapshot."""
        return list(map(read_worker, self.files))

    def gone_on(self, workers: int, flow: tw.Dataflow | None = None) -> Self:
        """Return workers that go on from the last snapshot, in place of these; the driver sends again what it had."""
        self.close_all()
        flow = flow or self.flow
        plan, saved = description_of(flow).plan(), self.saved()
        beginnings = [beginning(self.snapshot, plan, saved, worker, workers) for worker in range(workers)]
        group = type(self)(flow, workers, self.random, beginnings)
        group._times = dict(self._times_then)
        for name, at, batch in self._since:
            if at != group._times[name]:
                group.advance(name, at)
            group.send(name, batch)
        for name, at in self._times.items():
            if at != group._times[name]:
                group.advance(name, at)
        return group

    def run_for(self, most: int) -> None:
        """Take some turns, at most ``most`` for each worker."""
        for _ in range(self.random.randint(0, most * len(self.cores))):
            self.turn()


class UnevenGroup(SnapshotGroup):
    """Workers of which one mostly receives no records from its peers, until another one takes its place.

    So the others complete times of which that one has not received what belongs to it. They tell each other what
    happens to pointstamps in any way there is.
    """

    def __init__(
        self, flow: tw.Dataflow, workers: int, random: Random, beginnings: Sequence[WorkerBeginning] = ()
    ) -> None:
        progress: SpreadName = random.choice(("broadcast", "accumulated"))
        self.starved = random.randrange(workers) if workers > 1 else -1
        super().__init__(flow, workers, random, beginnings, hold_back=random.random() < 0.5, progress=progress)

    def turn(self) -> None:
        """Let a random worker take a step; the starved one seldom gets all that is on its way to it."""
        worker = self.random.randrange(len(self.cores))
        if worker == self.starved and self.random.random() < _STARVED:
            self.receive_no_records(worker)
        else:
            self.deliver(worker)
        self.step(worker)

    def receive_no_records(self, worker: int) -> None:
        """Let a worker receive what the driver has sent, and of each peer what came before any records."""
        late: list[Envelope] = []
        for envelope in self.in_flight[worker]:
            if envelope.sender != DRIVER and (envelope.messages or envelope.sender in {one.sender for one in late}):
                late.append(envelope)
            else:
                self.cores[worker].receive(envelope)
        self.in_flight[worker] = deque(late)
