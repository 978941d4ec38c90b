"""Delivers one partition of a topic with a log, from its worker to relays and subscribers, on an asyncio loop.

Other threads are used only to wait for the disk.
"""

import asyncio
import logging
import socket
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from tidewheel.host.background_turns import BackgroundTurns
from tidewheel.progress import Time, TimeDomain
from tidewheel.pubsub.exactly_once.fanout import Outgoing
from tidewheel.pubsub.exactly_once.journal import LogPlace
from tidewheel.pubsub.exactly_once.living_readers import LEASE_S, RETENTION_S, LivingReaders
from tidewheel.pubsub.exactly_once.waiting_nacks import WaitingNacks
from tidewheel.pubsub.log.errors import LogError
from tidewheel.pubsub.log.headers import LogIdentity
from tidewheel.pubsub.log.segmented_log import SEGMENT_BYTES
from tidewheel.pubsub.messages.delivery_messages import Ack, ConsolidatedAck, Nack
from tidewheel.pubsub.messages.delivery_options import DeliveryOptions
from tidewheel.pubsub.messages.frames import ChildMessage, Join, Told
from tidewheel.pubsub.messages.wire import Rejected
from tidewheel.pubsub.protocol.topic_end import PartitionEnd
from tidewheel.pubsub.publishers.audience import Audience
from tidewheel.pubsub.publishers.connections import Connections
from tidewheel.pubsub.publishers.durable_pubend import DurablePubend
from tidewheel.pubsub.publishers.epochs_again import Difference, Sums
from tidewheel.pubsub.publishers.partition import Awaiting
from tidewheel.pubsub.publishers.partition_log import ReplayedLog

_LOG = logging.getLogger(__name__)

LOOK_S = 0.1
PREDECESSOR_ENDS_WITHIN_S = 30.0
_HOUSE_S = 1.0
_TOLD_WITHIN_S = 1.0
_TOLD_LOOKS = 100


class DurableDelivery:
    """A `Delivery` with a pubend and its log.

    Args:
        awaited: the number of subscriptions to wait for before the first message; a log with messages waits for none.
        retention_s: the seconds for which messages are kept for a durable subscription without a reader, or if there is
            no subscription.
        lease_s: the seconds for which a reader behind a relay counts as alive after its last message, and a
            subscription that is not durable waits for its reader. For as long after the start, nothing is forgotten.
        has_history: whether the topic has history; then nothing is ever forgotten.
    """

    def __init__(  # noqa: PLR0913 - the settings of a publication, one by one
        self,
        directory: Path | str,
        identity: LogIdentity,
        domain: TimeDomain,
        node: str,
        awaited: int = 0,
        *,
        retention_s: float = RETENTION_S,
        lease_s: float = LEASE_S,
        clock: Callable[[], float] = time.time,
        segment_bytes: int = SEGMENT_BYTES,
        has_history: bool = False,
    ) -> None:
        name = f"topic {identity.topic!r}, partition {identity.partition}"
        self._identity = identity
        self._retention_s = retention_s
        self._has_history = has_history
        self.lease_s = lease_s
        self.problem = ""
        self._clock = clock
        self._is_full = False
        self._is_over = False
        self._housekeeping: asyncio.Task[None] | None = None
        self._kept_house_s = 0.0
        self._newest_after = -1
        self._nacks = WaitingNacks()
        self._loop = asyncio.get_running_loop()
        self._answering = BackgroundTurns(self._loop, self._answer, lambda: self.core.messages)
        self.core = DurablePubend(
            directory,
            identity,
            domain,
            tell=self._tell,
            later=self._later,
            clock=clock,
            awaited=awaited,
            wait_s=PREDECESSOR_ENDS_WITHIN_S,
            segment_bytes=segment_bytes,
            has_history=has_history,
        )
        living = LivingReaders(self.core.subscriptions.known, lease_s, retention_s)
        self.awaiting: Awaiting = self.core
        self.connections = Connections(node, self.core, self)
        self._children = self.connections.children
        self.audience = Audience(name, self.core, self.connections.changed, living, grace_s=lease_s)
        self._timer: asyncio.Handle = self._loop.call_soon(self._look)

    @property
    def why_not(self) -> str:
        """The reason why nothing is published, permanently or while the disk is full; empty otherwise."""
        full = None if self._is_over else self.core.writer.full
        return self.problem or ("" if full is None else str(full))

    # ------------------------------------------------------------------ going on

    def _later(self, call: Callable[[], None]) -> None:
        self._loop.call_soon_threadsafe(self._go_on, call)

    def _go_on(self, call: Callable[[], None]) -> None:
        if self._is_over:
            return
        call()
        if self.core.error is not None:
            self.refuse(str(self.core.error))
        full = self.core.writer.full
        if self._is_full != (full is not None):
            self._is_full = full is not None
            again = "the log has room again, and publishing goes on"
            until = f"{full}. Until there is room nothing is published, and its worker is held back"
            _LOG.log(logging.ERROR if full else logging.WARNING, "%r: %s", self, until if full else again)
        self.connections.settle()
        self.connections.changed.notify()

    def _look(self) -> None:
        now_s = self._loop.time()
        self._newest_after = self.core.log.newest_after
        self._timer.cancel()
        self.connections.settle()
        self._children.show_life()
        self.audience.look(frozenset(self._children.names), now_s)
        if self.core.error is None:
            self.core.look(forgets=self.audience.may_forget and not self._has_history)
        is_idle = self._housekeeping is None or self._housekeeping.done()
        if is_idle and now_s - self._kept_house_s >= (0 if self.core.is_trim_due else _HOUSE_S):
            self._kept_house_s = now_s
            self._housekeeping = self._loop.create_task(self._keep_house())
        self._timer = self._loop.call_later(LOOK_S, self._look)

    async def _keep_house(self) -> None:
        core = self.core
        self.audience.is_disk_short = await asyncio.to_thread(core.log.is_short_of_room)
        if self.audience.may_forget and not self._has_history:
            core.expire(self._clock() - self._retention_s)
        try:
            await asyncio.to_thread(core.trim)
        except LogError as error:
            _LOG.warning("%r: %s", self, error)
            self._kept_house_s += _HOUSE_S
        core.resume()

    def refuse(self, reason: str) -> None:
        """Publish nothing more: the worker has sent invalid messages, or the log cannot be written."""
        if not self.problem:
            self.problem = reason
            _LOG.error("%r publishes nothing more: %s", self, reason)
            self.connections.changed.notify()

    # ------------------------------------------------------------------ the worker and the children

    def attach(self, child: str, options: DeliveryOptions, *, again: bool = False) -> None: ...

    def turned_away(self, child: str) -> list[Told]:
        return []

    def connect(self, child: str, connection: socket.socket) -> None:
        self._children.connect(child, connection)

    def drained(self, _: str) -> None: ...

    def leave(self, child: str) -> None:
        self.connections.let_go(child)

    def go_back(self) -> None: ...

    def go_on(self) -> None:
        self.connections.settle()

    def hear(self, child: str, said: list[ChildMessage]) -> None:
        for message in said:
            if self.connections.refusal and not isinstance(message, Ack | ConsolidatedAck):
                self._reject(child, self.connections.refusal)
            elif isinstance(message, Join):
                self.core.join(child, message.where, awaits_silence=message.awaits_silence)
            elif message.pubend != self._identity.partition:
                self._reject(child, f"it asked pubend {self._identity.partition} about pubend {message.pubend}")
                return
            elif isinstance(message, Nack):
                self._nacks.add(child, message)
                self._answering.wake()
            else:
                self.core.ack(child, message)
                self.audience.heard(child, message)
                if self.core.log.newest_after != self._newest_after:  # older segments may be needed no more
                    self._look()
        self.connections.changed.notify()

    def _answer(self) -> bool:
        waiting = self._nacks.take()
        if waiting is not None and not self._is_over:
            self.core.nack(*waiting)
            self.connections.changed.notify()
        return bool(self._nacks)

    def _tell(self, outgoing: list[Outgoing]) -> None:
        self._children.tell(outgoing)
        self.connections.changed.notify()

    def _reject(self, child: str, reason: str) -> None:
        _LOG.warning("%r: %s: %s", self, child, reason)
        self._children.tell([Outgoing(child, Rejected(self._identity.partition, reason))])
        self.core.leave(child)

    def gone(self, child: str, why: str) -> None:
        _LOG.debug("%r: %s: %s", self, child, why)
        # The subscriber may have connected since the last look, and would count as expected for a minute.
        self.audience.look(frozenset((*self._children.names, child)), self._loop.time())
        self._nacks.leave(child)
        self.core.leave(child)
        self.core.subscriptions.lost(child)

    # ------------------------------------------------------------------ the end

    def fail(self, reason: str, *, on_purpose: bool = False) -> None:
        """End the partition early, with ``reason`` for its readers; still receive acknowledgements.

        Readers do not get ``on_purpose``, since their subscriptions continue with the next job of this log.
        """
        if self.connections.refusal:
            return
        self.connections.refusal, self.problem = reason, self.problem or reason
        self.connections.refuse_workers(reason)
        for child in self._children.names:
            self._reject(child, reason)
        self.audience.fail()

    @property
    def has_ended(self) -> bool:
        return self.core.told.has_ended or bool(self.problem)

    @property
    def readers(self) -> int:
        return self.audience.count

    def is_drained(self, but_for: str | None) -> bool:
        """Tell whether everything is durable, and acknowledged by all readers outside the process ``but_for``."""
        return self.audience.is_drained(but_for)

    def has_been_read(self, but_for: str | None) -> bool:
        return True

    @property
    def is_read_by_all(self) -> bool:
        return self.audience.is_read_by_all

    def unread(self) -> dict[str, int]:
        return self.audience.unread()

    def is_of(self, name: str, process: str | None) -> bool:
        return self.audience.is_of(name, process)

    def give_up(self, name: str) -> None:
        self.audience.give_up(name)

    def known_end(self, generation: int) -> PartitionEnd | None:
        told = self.core.told
        is_known = told.generation >= generation and told.has_all
        return PartitionEnd(self.core.written_tick, told.generation) if is_known else None

    def end(self, known: PartitionEnd | None) -> None:
        self.core.conclude()

    def expect(self, readers: Sequence[str]) -> list[str]:
        return []

    # ------------------------------------------------------------------ the contents of the log

    async def place(self, timeout_s: float) -> LogPlace:
        """Return the position of the log, once all sent messages are durable; raise LogError if that takes too long."""
        writer, core = self.core.writer, self.core
        if not await self.connections.wait_until(lambda: writer.durable_tick >= core.written_tick, timeout_s):
            raise LogError(f"{self!r}: what was sent is not durable after {timeout_s:g} s: {core.error or writer.full}")
        told = core.told
        return LogPlace(told.has_begun, list(told.lower), told.generation, told.complete, told.has_all)

    async def reached(self, time: Time, timeout_s: float) -> bool:
        """Wait until everything before a time is durable, at most ``timeout_s`` seconds; return whether it is."""
        return await self.connections.wait_until(lambda: not self.core.told.lower.less_than(time), timeout_s)

    async def came_again(self, generation: int, timeout_s: float) -> Sums | None:
        """Wait for the complete epochs that are sent again in a generation; return the sums of their digests.

        Return None after ``timeout_s`` seconds, and an empty result if the epochs cannot be compared.
        """
        core = self.core

        def have_come() -> bool:
            again = core.again
            return core.told.generation >= generation if again is None else again.have_come_in(generation)

        if not await self.connections.wait_until(have_come, timeout_s):
            return None
        return {} if core.again is None else await asyncio.to_thread(core.again.came)

    async def logged(self, times: Collection[Time]) -> Sums:
        """Return the digest sums of logged epochs, None for an epoch that cannot be compared; raise LogError."""
        if self.core.again is None:
            return dict.fromkeys(times)
        return await asyncio.to_thread(self.core.again.logged, ReplayedLog(self.core.log), times)

    async def compared(self, differing: Sequence[Time]) -> dict[int, Difference]:
        """Return, by digest, the differences between the first of these epochs and the log.

        This forgets the epochs that were sent again.

        Raises:
            LogError, DeliveryError: the log, or a message, cannot be read.
        """
        again, self.core.again = self.core.again, None
        if again is None or not differing:
            return {}
        return await asyncio.to_thread(again.differences, ReplayedLog(self.core.log), differing[0])

    def statistics(self) -> dict[str, int]:
        """Return the counts since the start, by name.

        They count: messages from the worker that were not logged before, and their bytes; questions of children;
        connected relays and readers; subscriptions with a reader, all subscriptions, durable subscriptions, and
        subscriptions that have not acknowledged everything; bytes of the log, and bytes that wait for children;
        messages skipped for children that did not read.
        """
        core, subscriptions = self.core, self.core.subscriptions
        return {
            "messages": core.messages,
            "bytes": core.message_bytes,
            "nacks": core.nacks,
            "children": len(self._children),
            "subscribers": self.audience.count,
            "subscriptions": subscriptions.count(subscriptions.known),
            "durable_subscriptions": sum(map(subscriptions.is_durable, subscriptions.known)),
            "unread": len(core.unread()),
            "log_bytes": core.log.total_bytes,
            "waiting_bytes": self._children.waiting_bytes,
            "dropped": self._children.dropped,
        }

    async def close(self) -> None:
        """Release everything, send children the reason if there is one, and close the log.

        Raise LogError if that fails.
        """
        self.connections.refuse_workers(self.problem or f"{self!r} is closed: its topic has ended")
        try:
            await self._dismiss()
        finally:
            await self.stop()

    async def _dismiss(self) -> None:
        core = self.core
        late: set[str | None] = set() if self.connections.refusal else set(self._children.names)
        if core.told.has_ended and not self.problem:
            known = core.subscriptions.known  # readers behind a relay that have everything need no message
            late = {known[name].reader for name in core.unread() if known[name].readers is None}
        for child in [child for child in self._children.names if child in late]:
            self._reject(child, self.problem or "the publisher has ended before everything was read")
        for _ in range(_TOLD_LOOKS):
            await asyncio.sleep(_TOLD_WITHIN_S / _TOLD_LOOKS)
            if not self._children.waiting_bytes:
                break

    async def stop(self) -> None:
        """Release everything without a message, as if the process had ended, and close the log.

        Raise LogError if that fails.
        """
        self._timer.cancel()
        self._answering.close()
        if self._housekeeping is not None:
            await self._housekeeping
        self.connections.close()
        self.audience.end()
        self._is_over = True
        await asyncio.to_thread(self.core.close)

    def __repr__(self) -> str:
        return f"Pubend({self._identity.topic!r}[{self._identity.partition}])"
