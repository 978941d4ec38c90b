"""The publisher of one partition: a real `DurablePubend` with its audience, on a simulated disk."""

from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any

from tests.kit.simulation.injection import replaced
from tests.simulation.delivery.world import BEGIN_S, PAUSED_S, SLOWEST_SYNC_S, PubendNode
from tests.simulation.disk import Commit, DiskLog
from tests.simulation.jobs.wire import Wire
from tidewheel.progress import Time
from tidewheel.pubsub.exactly_once.journal import LogPlace, OutdatedWorkerError, VoidSnapshotError
from tidewheel.pubsub.exactly_once.living_readers import LivingReaders
from tidewheel.pubsub.log.headers import LogIdentity
from tidewheel.pubsub.messages.delivery_messages import Begun, Nack, Ranges, Upstream
from tidewheel.pubsub.messages.encoded_message import EncodedMessage
from tidewheel.pubsub.messages.wire import WorkerPosition
from tidewheel.pubsub.publishers import durable_pubend, epochs_again, partition_writer
from tidewheel.pubsub.publishers.audience import Audience
from tidewheel.pubsub.publishers.durable_pubend import DurablePubend
from tidewheel.pubsub.publishers.epochs_again import Difference, Sums
from tidewheel.pubsub.publishers.partition_log import ReplayedLog
from tidewheel.transport.change_signal import ChangeSignal

if TYPE_CHECKING:
    from tests.simulation.jobs.world import JobWorld

CACHE_BYTES = 400
LEASE_S = 20.0
"""The lease of a reader, ten times as long as an idle one is silent: half of what it says may be lost."""


class _AtOnce:
    """What runs digests, in the place of a thread."""

    def __init__(self, *_: Any) -> None:
        pass

    def submit(self, function: Callable[..., None], *arguments: Any) -> "_AtOnce":
        """Run a function."""
        function(*arguments)
        return self

    def result(self) -> None:
        """Do nothing: it has run."""


def on_simulated_disks() -> ExitStack:
    """Return a context in which publishers have simulated disks, and no threads."""
    with ExitStack() as stack:
        stack.enter_context(
            replaced(durable_pubend, "open_log", lambda _: lambda disk, _, first, *__, **___: disk.open(first))
        )
        stack.enter_context(replaced(partition_writer, "GroupCommit", lambda _: Commit))
        stack.enter_context(replaced(epochs_again, "ThreadPoolExecutor", lambda _: _AtOnce))
        return stack.pop_all()


class Publisher(PubendNode):
    """A publisher, which its disk survives.

    Attributes:
        core: what does the work; None while there is no process.
    """

    core: Any
    _world: "JobWorld"

    def __init__(self, world: "JobWorld", number: int, pubends: int, clock_s: float) -> None:
        self.log = DiskLog(world.random.choice((300, 1000, 4000)), self._sync_later)
        self.wire: Wire | None = None
        super().__init__(world, number, pubends, clock_s)

    def _sync_later(self, synced: Callable[[], None]) -> None:
        self._world.network.at(self._world.random.random() * SLOWEST_SYNC_S, lambda: self._when_running(synced))

    def _when_running(self, synced: Callable[[], None]) -> None:
        if self.is_paused:
            self._world.network.at(PAUSED_S, lambda: self._when_running(synced))
        else:
            synced()
            self._settle()

    def start(self) -> None:
        """Begin, or go on from what is on the disk."""
        topic = self._world.topic
        self.core = core = DurablePubend(
            self.log,  # type: ignore[arg-type]  # which `on_simulated_disks` opens
            LogIdentity(topic.topic, self._number, self._pubends, repr(topic.domain)),
            topic.domain,
            tell=self.tell,
            later=lambda call: call(),
            clock=lambda: BEGIN_S + self._world.network.now_s + self._clock_s,
            cache_bytes=CACHE_BYTES,
        )
        living = LivingReaders(core.subscriptions.known, LEASE_S, inf)
        self.audience = Audience(self.name, core, ChangeSignal(), living, grace_s=LEASE_S)

    def crash(self) -> None:
        """Lose everything but the disk; and the clock may have been set back by the next start."""
        self.core = None
        self.close_worker()
        self.step_clock(-self._world.random.random())
        self.log.crash(self._world.random)

    # ------------------------------------------------------------------ the worker

    def begin(self, wire: Wire, position: WorkerPosition) -> None:
        """Receive where a worker begins."""
        try:
            self.core.begin(position)
        except OutdatedWorkerError:
            wire.is_cut = True
            return
        except VoidSnapshotError:
            wire.refuse()
            return
        if self.wire is not wire:
            self.close_worker()
        self.wire = wire

    def feed(self, wire: Wire, messages: Sequence[EncodedMessage]) -> None:
        """Receive what a worker sends."""
        assert wire is self.wire, "only the worker that has begun sends"
        self.core.feed(messages)
        self._settle()

    def close_worker(self) -> None:
        """Receive nothing more of the worker."""
        if self.wire is not None:
            self.wire.is_cut = True
            self.wire = None

    def _settle(self) -> None:
        """Tell the worker what is durable."""
        if self.core is not None and self.wire is not None and not self.is_paused:
            confirmed = self.core.confirmed()
            if confirmed.messages:
                self.wire.confirm(confirmed)

    # ------------------------------------------------------------------ the job; see `PublisherActor`

    def place(self) -> LogPlace | None:
        """Return how far the log is; None while something is not durable, or nobody answers."""
        if not self.is_there or self.core.writer.durable_tick < self.core.written_tick:
            return None
        told = self.core.told
        return LogPlace(told.has_begun, list(told.lower), told.generation, told.complete, told.has_all)

    def conclude(self) -> None:
        """End the partition, as all have everything."""
        self.core.conclude()
        self._settle()

    def came_again(self, generation: int, _: float) -> Sums | None:
        """Return the complete epochs that came again; None if they have not come."""
        again = self.core.again
        if again is None:
            return {} if self.core.told.generation >= generation else None
        return again.came() if again.have_come else None

    def logged(self, times: Collection[Time]) -> Sums:
        """Return what the log has of some epochs."""
        again = self.core.again
        return dict.fromkeys(times) if again is None else again.logged(ReplayedLog(self.core.log), times)

    def compared(self, differing: Sequence[Time]) -> dict[int, Difference]:
        """Forget the epochs that came again; return how the first of those differs."""
        again, self.core.again = self.core.again, None
        return again.differences(ReplayedLog(self.core.log), differing[0]) if again and differing else {}

    # ------------------------------------------------------------------ readers and relays

    def look(self) -> None:
        """Do what is due."""
        if not self.is_there:
            return
        core = self.core
        self.audience.look(frozenset(core._pubend.fanout.children), self._world.network.now_s)
        core.look(forgets=self.audience.may_forget)
        core.trim()
        self._settle()

    def receive(self, sender: str, message: Upstream) -> None:
        """Take what a child says."""
        if not self.is_there:
            return
        if isinstance(message, Nack):
            self.nacks += 1
            self.core.nack(sender, message)
        else:
            self.core.ack(sender, message)
            self.audience.heard(sender, message)

    def subscribe(
        self,
        name: str,
        reader: str,
        start: int | None = None,
        *,
        durable: bool = True,
        again: bool = False,
        acknowledged: Ranges = (),
    ) -> Begun:
        """Take on a subscription, or go on with the one there is, and give it to a reader; that is durable at once."""
        begun: Begun = self.core.subscribe(name, reader, start, durable=durable, again=again, acknowledged=acknowledged)
        self.audience.living.seat(name, self.audience._now_s)
        self._be_durable()
        return begun

    def unsubscribe(self, reader: str, acknowledged: Ranges, everywhere: tuple[Ranges, ...]) -> None:
        """Take the last word of a reader."""
        name = self.core.subscriptions.name_of(reader)
        self.core.unsubscribe(reader, acknowledged, everywhere)
        if name is not None:
            self.audience.living.leave(name, self.audience._now_s)
        self._be_durable()

    def _be_durable(self) -> None:
        while self.log.commit is not None and self.log.commit.waiting:
            self.log.commit.sync()

    def leave(self, child: str) -> None:
        """Forget a child; a process that hangs does so once it goes on."""
        if self.is_paused:
            self._world.network.at(PAUSED_S, partial(self.leave, child))
        elif self.core is not None:
            self.core.leave(child)
            self.core.subscriptions.lost(child)

    def join(self, child: str, where: Any, *, awaits_silence: bool) -> None:
        """Take on a child."""
        if self.is_there:
            self.core.join(child, where, awaits_silence=awaits_silence)
