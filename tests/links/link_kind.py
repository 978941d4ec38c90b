"""The description of a kind of link for the conformance suite, and the tools of that suite."""

import os
import signal
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from tests.kit.runtime.inboxes import missing
from tests.links.batch_kinds import KINDS
from tidewheel.runtime.messages.envelope import Envelope, Message
from tidewheel.runtime.worker.ordered_inbox import OrderedInbox
from tidewheel.transport.link import Receiver, Sender

DEADLINE_S = 30.0
INCARNATION = 7


@dataclass(frozen=True, slots=True)
class Member:
    """A worker, or the driver, as far as links know it."""

    number: int
    sender: Sender[Envelope]
    receiver: Receiver[Envelope]


class Reflection:
    """A worker in a process of its own, number 1, which sends back to worker 0 each envelope that comes.

    Attributes:
        driver: the driver's end.
        home: worker 0, in this process, to which the envelopes come back.
        killed: whether the process was ended.
    """

    def __init__(self, driver: Sender[Envelope], home: Member, pid: int) -> None:
        self.driver = driver
        self.home = home
        self.killed = False
        self._pid = pid

    def pause(self) -> None:
        """Stop the process; it does not notice."""
        os.kill(self._pid, signal.SIGSTOP)

    def go_on(self) -> None:
        """Let it go on."""
        os.kill(self._pid, signal.SIGCONT)

    def kill(self) -> None:
        """End the process with SIGKILL."""
        os.kill(self._pid, signal.SIGKILL)
        self.killed = True


class LinkKind(ABC):
    """One kind of link.

    Attributes:
        envelopes: how many a test may send, so that it takes a second or two at most.
        keeps_order: whether envelopes come in order already, before their numbers are looked at.
        batches: how to make the batches that are to survive.
    """

    envelopes = 3000
    keeps_order = True
    batches: Mapping[str, Callable[[int], Any]] = KINDS

    @abstractmethod
    def members(self, count: int) -> AbstractContextManager[Sequence[Member]]:
        """Make workers 0 .. ``count - 1``, connected with each other; close them in the end."""

    @abstractmethod
    def reflection(self) -> AbstractContextManager[Reflection]:
        """Make worker 0 here and worker 1 in a process of its own; end it in the end."""


class Arrivals:
    """What one receiver has got: as it came, and in the order of its numbers."""

    def __init__(self, receiver: Receiver[Envelope]) -> None:
        self._receiver = receiver
        self.inbox: OrderedInbox[Envelope] = OrderedInbox()
        self.raw: list[Envelope] = []
        self.ordered: dict[int, list[Envelope]] = {}

    def take(self, count: int) -> "Arrivals":
        """Receive until there are ``count`` envelopes in order."""
        deadline_s = time.monotonic() + DEADLINE_S
        while self.count < count:
            left_s = deadline_s - time.monotonic()
            assert left_s > 0, f"{self.count} of {count} came; these are missing: {missing(self.inbox)}"
            for envelope in self._receiver.receive(left_s):
                self.raw.append(envelope)
                ready = self.inbox.accept(envelope.sender, envelope.incarnation, envelope.sequence, envelope)
                self.ordered.setdefault(envelope.sender, []).extend(ready)
        return self

    @property
    def count(self) -> int:
        return sum(map(len, self.ordered.values()))

    @property
    def batches(self) -> list[Any]:
        """The batches of all messages, in order if there is one sender only."""
        return [message.batch for sent in self.ordered.values() for envelope in sent for message in envelope.messages]


def letter(sender: int, sequence: int, *batches: Any) -> Envelope:
    """Make an envelope with a message for each batch."""
    messages = [Message(3, (0, sequence), batch) for batch in batches]
    return Envelope(sender, INCARNATION, sequence, messages, [((3, (0, sequence)), 1)])


class Task:
    """Something that runs on a thread of its own, and that may hang without taking the tests with it."""

    def __init__(self, action: Callable[[], Any]) -> None:
        self._action = action
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._action()
        except BaseException as error:  # noqa: BLE001 - raised by `join`
            self._error = error

    def join(self, deadline_s: float = DEADLINE_S) -> None:
        """Wait for its end; raise what it raised, or fail if it has not ended by the deadline."""
        self._thread.join(deadline_s)
        assert not self._thread.is_alive(), f"it still hangs after {deadline_s} s"
        if self._error is not None:
            raise self._error


def within(deadline_s: float, action: Callable[[], Any]) -> None:
    """Run ``action``; fail, and leave it behind, if it has not ended by the deadline."""
    Task(action).join(deadline_s)
