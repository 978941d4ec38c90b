"""Waits of the publish operator, ended by the connection or by one timer, however often it is scheduled meanwhile."""

from collections.abc import Callable
from typing import Any, cast

from tidewheel.operators.sinks.publish import WaitingForRoom
from tidewheel.pubsub.publishers.connection import PublisherConnection
from tidewheel.runtime.worker.operator_context import OperatorContext


class Context:
    """What a worker does for the operator, noted."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.timers: list[float] = []
        self.expected = 0
        self.activator = self

    def clock(self) -> float:
        return self.now_s

    def activate(self) -> None:
        """Do nothing."""

    def after(self, seconds: float) -> None:
        self.timers.append(self.now_s + seconds)

    def expect_activation(self) -> None:
        self.expected += 1


class Connection:
    """A connection without room; it says when to ask again."""

    def __init__(self) -> None:
        self.again_s: float | None = None
        self.wakes: list[Callable[[], None]] = []

    def wait_for_room(self, wake: Callable[[], None]) -> float | None:
        self.wakes.append(wake)
        return self.again_s


def waiting() -> tuple[WaitingForRoom, Any, Any]:
    context, connection = Context(), Connection()
    made = WaitingForRoom(cast(OperatorContext, context), cast(PublisherConnection, connection), context.clock)
    return made, context, connection


def test_a_connection_that_wakes_needs_no_timer() -> None:
    """It knows when there is room; and the worker knows that somebody will activate the operator."""
    room, context, connection = waiting()
    room.begin()
    assert context.timers == []
    assert context.expected == 1
    assert connection.wakes == [context.activate]


def test_there_is_one_timer_at_a_time() -> None:
    """Messages that arrive while it waits set no more; when it has gone off there is another one."""
    room, context, connection = waiting()
    connection.again_s = 0.005
    for now_s in (100.0, 100.001, 100.004, 100.0051, 100.007, 100.0102):
        context.now_s = now_s
        room.begin()
    assert context.expected == 6
    assert context.timers == [100.005, 100.0101, 100.0152]


def test_an_earlier_time_is_a_timer_of_its_own() -> None:
    """As when somebody else holds the publisher, for whom there is less time."""
    room, context, connection = waiting()
    for connection.again_s in (60.0, 60.0, 1.0, 1.0, 60.0):
        room.begin()
    assert context.timers == [160.0, 101.0]
