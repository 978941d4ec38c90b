"""One worker's ends and moves of the frontier, where the test says what happens at its input and connection."""

from types import SimpleNamespace
from typing import Any, cast

import tidewheel as tw
from tests.kit.messages import raises
from tidewheel.operators.sinks.publish import PublishedEnds, build_publish
from tidewheel.progress import Antichain, IntegerDomain, TimeDomain
from tidewheel.pubsub.publications.publication import Publication
from tidewheel.runtime.worker.firm_mailbox import WaitingEnds
from tidewheel.runtime.worker.operator_context import OperatorContext

INTEGERS = IntegerDomain()


class Divisors(IntegerDomain):
    """Times from 1 on, of which one is before another if it divides it."""

    def minimum(self) -> int:
        return 1

    def less_equal(self, a: int, b: int) -> bool:
        return b % a == 0


class Port:
    """An input of which a test says what comes there and is told."""

    def __init__(self, domain: TimeDomain, frontier: list[int]) -> None:
        self._running = self
        self.ends = WaitingEnds()
        self.queue: list[Any] = []
        self.frontier = Antichain(domain, frontier)

    @property
    def is_empty(self) -> bool:
        return not self.queue and not self.ends

    def whole(self) -> Any:
        while self.queue:
            yield self.queue.pop(0)

    @property
    def ended(self) -> Any:
        while self.ends:
            yield self.ends.take()


class Noting:
    """A context with a connection that notes what it gets."""

    def __init__(self, domain: TimeDomain, worker: int = 0, workers: int = 1) -> None:
        self.worker = worker
        self.workers = workers
        self.told: list[Any] = []
        self.room = True
        self.activator = self
        self._instance = self
        self.attachments = {"orders": self}
        self.clock = lambda: 0.0
        self._domain = domain

    def state(self, _: str, make: Any, **ways: Any) -> Any:
        return make()

    def on_close(self, close: Any) -> None:
        """Never close."""

    def close(self) -> None:
        """Do nothing, as a connection of a topic."""

    def go_on(self, saved: Any) -> None:
        """Go on with nothing."""

    is_awaiting = False

    def has_room(self) -> bool:
        return self.room

    def wait_for_room(self, wake: Any) -> None:
        """Have nobody woken."""
        self.told.append("waits")

    def activate(self) -> None:
        """Do nothing."""

    def expect_activation(self) -> None:
        """Do nothing."""

    def flush(self) -> None:
        """Note nothing."""

    def data(self, time: int, batch: list[Any]) -> None:
        self.told.append(("data", time))
        self.room = False

    def frontier(self, updates: list[Any]) -> None:
        self.told.append(("frontier", updates))

    def ends(self, time: int, keys: list[Any]) -> None:
        self.told.append(("ends", time, keys))

    def made(self) -> PublishedEnds:
        return PublishedEnds(self.described(), cast(OperatorContext, self))

    def described(self) -> Publication:
        return Publication("orders", self._domain, ends=True)

    def schedule(self) -> Any:
        return build_publish(self.described())(cast(OperatorContext, self))


def test_the_last_frontier_waits_for_ends_that_are_told_after_it() -> None:
    """Where times are complete before all ends are told, the last epoch is open until they are, and no longer."""
    context = Noting(INTEGERS)
    schedule = context.schedule()
    port = Port(INTEGERS, [0])
    schedule(port)
    port.frontier = Antichain(INTEGERS, [4])
    schedule(port)
    port.frontier = Antichain(INTEGERS)
    schedule(port)
    assert context.told == [("frontier", [(0, -1), (4, 1)])]
    port.ends.add(["late"])
    schedule(port)
    port.ends.add(["latest"])
    port.ends.are_all = True
    schedule(port)
    assert context.told[1:] == [("ends", 4, ["late"]), ("ends", 4, ["latest"]), ("frontier", [(4, -1)])]
    schedule(port)
    assert len(context.told) == 4


def test_ends_wait_for_room() -> None:
    """With the moves of the frontier; but for the last, after which the operator may not be scheduled again."""
    context = Noting(INTEGERS)
    schedule = context.schedule()
    port = Port(INTEGERS, [0])
    schedule(port)
    context.room = False
    port.ends.add(["a"])
    schedule(port)
    assert context.told == ["waits"]
    context.room = True
    schedule(port)
    assert context.told[1:] == [("ends", 0, ["a"])]
    context.room = False
    port.ends.add(["b"])
    port.ends.are_all = True
    port.frontier = Antichain(INTEGERS)
    schedule(port)
    assert context.told[2:] == [("ends", 0, ["b"]), ("frontier", [(0, -1)])]


def test_a_move_that_completes_an_epoch_does_not_wait_for_room() -> None:
    """Else a full log might have nothing but open epochs, which nobody can acknowledge. Other moves wait, as one."""
    context, port = Noting(INTEGERS), Port(INTEGERS, [0])
    schedule = context.schedule()
    port.queue = [(SimpleNamespace(time=time, label=None), [time]) for time in (0, 2, 9)]

    def moves_to(time: int) -> list[Any]:
        port.frontier, context.told = Antichain(INTEGERS, [time]), []
        schedule(port)
        return context.told

    assert moves_to(0) == [("data", 0), "waits"]
    assert moves_to(1) == [("frontier", [(0, -1), (1, 1)]), "waits"]
    assert moves_to(2) == ["waits"]
    context.room = True
    assert moves_to(2) == [("data", 2), "waits"]
    assert moves_to(2) == ["waits"]
    assert moves_to(5) == [("frontier", [(1, -1), (5, 1)]), "waits"]
    assert moves_to(7) == moves_to(8) == ["waits"]
    context.room = True
    assert moves_to(9) == [("data", 9), "waits"]
    context.room = True
    assert moves_to(9) == [("frontier", [(5, -1), (9, 1)])]


def test_an_end_is_never_before_the_last_end_of_its_key() -> None:
    """Which may be at a time to come; that is forgotten once the frontier has passed it."""
    context, port = Noting(INTEGERS), Port(INTEGERS, [3])
    ends = context.made()
    for latest in (9, 4, None):
        if latest is not None:
            ends.note((0, "a"), latest)
        port.ends.add(["a"])
        ends.publish(cast(tw.InputPort, port), port.frontier, cast(Any, context))
    port.ends.add(["a"])
    ends.publish(cast(tw.InputPort, port), Antichain(INTEGERS, [20]), cast(Any, context))
    assert context.told == [("ends", time, ["a"]) for time in (9, 9, 9, 20)]
    assert not ends._to_come


def test_an_end_is_at_the_latest_time_of_its_records() -> None:
    """Also where they come out of order, or that time is later than the frontier; unless it is complete."""
    context, port = Noting(INTEGERS), Port(INTEGERS, [3])
    ends = context.made()
    for key, time in (("a", 5), ("a", 3), ("b", 1), ("b", 2), ("c", 3)):
        ends.note((0, key), time)
    ends.note(None, 9)
    for key in ("a", "b", "c", "d"):
        port.ends.add([key])
    ends.publish(cast(tw.InputPort, port), port.frontier, cast(Any, context))
    assert context.told == [("ends", 5, ["a"]), ("ends", 3, ["b", "c", "d"])]


def test_records_at_times_in_no_order_are_an_error() -> None:
    """Of a domain of one's own; the message names the topic, the worker, the key and the times."""
    domain = Divisors()
    context, port = Noting(domain), Port(domain, [3])
    ends = context.made()
    ends.note((0, "a"), 2)
    ends.note((0, "a"), 4)
    port.ends.add(["a"])
    with raises(tw.DeliveryError):
        ends.note((0, "a"), 6)
    with raises(tw.DeliveryError):
        ends.publish(cast(tw.InputPort, port), port.frontier, cast(Any, context))


def test_one_worker_publishes_an_end() -> None:
    """Every worker is told of it; the one that owns the key says so."""
    told = []
    for worker in range(3):
        context, port = Noting(INTEGERS, worker, 3), Port(INTEGERS, [0])
        for key in range(30):
            port.ends.add([key])
        context.made().publish(cast(tw.InputPort, port), port.frontier, cast(Any, context))
        told += [key for _, _, keys in context.told for key in keys]
    assert sorted(told) == list(range(30))
