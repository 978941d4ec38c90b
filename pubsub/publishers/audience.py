"""The readers of one pubend: accepting them, waiting for them, and giving up readers that have gone.

This runs on an asyncio loop. Its clock runs only while the pubend does.
"""

import asyncio
import logging
from collections.abc import Callable, Container
from dataclasses import dataclass
from functools import partial
from typing import Final

from tidewheel.pubsub.exactly_once.living_readers import LEASE_S, LivingReaders
from tidewheel.pubsub.exactly_once.pubend import NotReady
from tidewheel.pubsub.log.errors import LogError
from tidewheel.pubsub.messages.delivery_messages import Ack, Begun, ConsolidatedAck, Ranges
from tidewheel.pubsub.publishers.durable_pubend import DurablePubend
from tidewheel.transport.change_signal import ChangeSignal

_LOG = logging.getLogger(__name__)

NOTED_WITHIN_S: Final = 30.0
"""The seconds within which the beginning or the position of a subscription must be durable."""

RETURN_WITHIN_S: Final = 5.0
"""The seconds after a restart in which unknown readers may still return."""

LEAVE_WITHIN_S: Final = 5.0
"""The seconds for readers' last acknowledgements after their topic has failed."""

_MOST_STEP_S = 1.0
_DAY_S = 24 * 3600.0


@dataclass(eq=False)
class Audience:
    """The readers of one pubend.

    Args:
        grace_s: the seconds after the start in which nothing is forgotten, since earlier readers may return. A new log
            on an almost full disk does not wait.
    """

    where: str
    pubend: DurablePubend
    changed: ChangeSignal
    living: LivingReaders
    grace_s: float = LEASE_S
    _looked_s: float | None = None
    _now_s: float = 0.0
    _is_over: bool = False
    _leaving: list[str] | None = None
    _leave_until_s: float = 0.0

    def __post_init__(self) -> None:
        self._return_s = min(RETURN_WITHIN_S, self.grace_s)
        self._is_log_new = False
        self._given_up: set[str] = set()
        self.is_disk_short = False
        """Whether the disk of the log had little room left at the partition's last look."""

    def expect_nobody(self) -> None:
        """Do not wait for earlier readers, since this publisher has not been restarted.

        Readers of an earlier job may still come back: if the log has messages, `may_forget` waits for them.
        """
        self._return_s = 0.0
        self._is_log_new = self.pubend.written_tick < 0
        self.changed.notify()

    # ------------------------------------------------------------------ coming and going

    async def subscribe(
        self, name: str, reader: str, start: int | None, *, durable: bool, again: bool, acknowledged: Ranges = ()
    ) -> Begun:
        """Call `DurablePubend.subscribe`; if the subscription must be durable, return once it is."""
        begun = await self._begun(
            partial(self.pubend.subscribe, name, reader, start, durable=durable, again=again, acknowledged=acknowledged)
        )
        is_durable = self.pubend.subscriptions.is_durable(name)
        self.living.seat(name, self._now_s)
        self.changed.notify()
        if is_durable:
            await self._be_logged(name)
        return begun

    async def _begun(self, subscribe: Callable[[], Begun]) -> Begun:
        """Return the result of ``subscribe()``; fetch the part of the log that it needs."""
        outcome: asyncio.Future[Begun] = asyncio.get_running_loop().create_future()

        def attempt() -> None:
            if outcome.done():  # the reader has gone
                return
            try:
                outcome.set_result(subscribe())
            except NotReady as missing:
                self.pubend.reads.fetch(missing, attempt)
            except Exception as error:  # noqa: BLE001 - for the caller
                outcome.set_exception(error)

        attempt()
        return await outcome

    async def unsubscribe(self, reader: str, acknowledged: Ranges, everywhere: tuple[Ranges, ...] = ()) -> None:
        """Release a reader, with its last acknowledgements; for a durable subscription, return once these are durable.

        Raises:
            LogError: the log cannot be written.
        """
        name = self.pubend.subscriptions.name_of(reader)
        self.pubend.unsubscribe(reader, acknowledged, everywhere)
        if name is None:
            return
        self.living.leave(name, self._now_s)
        self.changed.notify()
        await self._be_logged(name)

    async def end_durable(self, name: str) -> list[str]:
        """End a durable subscription for good, if there is one with this name.

        Return the names of the durable subscriptions that existed before.

        Raises:
            LogError: the log cannot be written.
        """
        names = self.pubend.subscriptions.durable_names
        if name in names:
            self.pubend.end(name)
            self.changed.notify()
        elif not self.pubend.subscriptions.is_logged(name):
            names.append(name)  # the subscription was ended just now, and its end is not durable yet
        if name in names:
            await self._be_logged(name)
        return names

    async def _be_logged(self, name: str) -> None:
        pubend = self.pubend
        if await self.changed.wait_until(
            lambda: self._is_over or pubend.subscriptions.is_logged(name) or pubend.error is not None,
            NOTED_WITHIN_S,
        ) and pubend.subscriptions.is_logged(name):
            return
        late = "the publisher has ended meanwhile" if self._is_over else f"it took more than {NOTED_WITHIN_S:g} s"
        why = pubend.error or pubend.writer.full or late
        raise LogError(f"{self.where}: where subscription {name!r} is could not be noted: {why}")

    def heard(self, child: str, ack: Ack | ConsolidatedAck) -> None:
        if isinstance(ack, ConsolidatedAck):
            self.living.heard(child, self._now_s)
            return
        for reader in ack.acks:
            name = self.pubend.subscriptions.name_of(reader)
            if name is not None:
                self.living.heard(name, self._now_s)

    def look(self, connected: Container[str], now_s: float) -> None:
        """Give up the readers that have been gone for too long; call this regularly.

        ``connected`` has the ids of connected readers, perhaps among others.
        """
        if self._looked_s is not None:
            self._now_s += min(now_s - self._looked_s, _MOST_STEP_S)
        self._looked_s = now_s
        overdue = self.living.look(connected, self._now_s)
        for name in overdue.to_warn:
            self._warn(name)
        for name in overdue.over:
            self._give_up(name)
        self.changed.notify()

    def _warn(self, name: str) -> None:
        away_s = self.living.away_s(name, self._now_s)
        _LOG.warning(
            "%s: nobody has read subscription %r for %s, and it keeps about %d bytes of the log. After as long again "
            "without a reader they are given up, and what it has not acknowledged is lost to it. Read it, or "
            "publish with a longer retention",
            self.where,
            name,
            f"{away_s / _DAY_S:.1f} days" if away_s >= _DAY_S else f"{away_s:.0f} s",
            self.pubend.held_bytes(name),
        )

    def _give_up(self, name: str) -> None:
        if self.pubend.subscriptions.is_durable(name):
            _LOG.warning(
                "%s: nobody has read subscription %r for too long: its messages are kept no more", self.where, name
            )
            self.pubend.abandon(name)
        else:
            _LOG.info("%s: the reader of subscription %r has gone", self.where, name)
            self.pubend.end(name)

    @property
    def may_forget(self) -> bool:
        """True if earlier readers have had enough time to come back after a restart."""
        return self._now_s >= self.grace_s or (self._is_log_new and self.is_disk_short)

    # ------------------------------------------------------------------ waiting for them

    @property
    def count(self) -> int:
        return self.pubend.subscriptions.count(self.living.living(self._now_s))

    def unread(self) -> dict[str, int]:
        """Return the subscriptions that have a reader but have not acknowledged everything.

        Each comes with a number that grows when its reader acknowledges.
        """
        known = self.pubend.subscriptions.known
        unread = set(self.pubend.unread())
        return {
            name: known[name].progress + sum(end - first for first, end in known[name].acknowledged)
            for name in self.living.living(self._now_s)
            if name in unread
        }

    def is_drained(self, but_for: str | None) -> bool:
        """Tell whether everything is durable, and acknowledged by all readers outside the process ``but_for``.

        If the partition has failed, only the last acknowledgements of durable subscriptions count.
        """
        if self._is_over:
            return True
        if self._leaving is not None:
            is_late = self._now_s >= self._leave_until_s
            return is_late or all(self.is_of(name, but_for) for name in filter(self.living.has_reader, self._leaving))
        pubend = self.pubend
        is_published = pubend.writer.durable_tick >= pubend.written_tick or pubend.error is not None
        if self._now_s < self._return_s or not is_published:
            return False
        return all(self.is_of(name, but_for) for name in self.unread())

    def is_of(self, name: str, process: str | None) -> bool:
        reader = self.pubend.subscriptions.reader_of(name)
        return process is not None and reader is not None and reader.startswith(f"{process}/")

    @property
    def is_read_by_all(self) -> bool:
        """True if all readers have acknowledged everything, or were given up."""
        is_waited_for = self._leaving is not None or self._now_s < self._return_s
        return self.is_drained(None) or not (is_waited_for or self.unread().keys() - self._given_up)

    def give_up(self, name: str) -> None:
        """Stop counting a subscription, since it acknowledges nothing."""
        if name not in self._given_up:
            self._given_up.add(name)
            _LOG.warning("%s: the last messages are not kept for subscription %r any longer", self.where, name)

    def fail(self) -> None:
        """Stop waiting for readers, except briefly for the last acknowledgements of durable subscriptions."""
        living = self.living.living(self._now_s)
        self._leaving = [name for name in living if self.pubend.subscriptions.is_durable(name)]
        self._leave_until_s = self._now_s + min(LEAVE_WITHIN_S, self.grace_s)
        self.changed.notify()

    def end(self) -> None:
        self._is_over = True
        self.changed.notify()
