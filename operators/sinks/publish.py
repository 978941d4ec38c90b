"""The publish operator: one worker's end of a topic's partition."""

from math import inf
from typing import TYPE_CHECKING

from tidewheel.progress import Antichain, Time
from tidewheel.pubsub.connection import PublisherConnection
from tidewheel.pubsub.errors import SchemaMismatch
from tidewheel.pubsub.topic_schema import TopicSchema, topic_schema
from tidewheel.runtime.input_port import InputPort
from tidewheel.runtime.operator_context import OperatorContext
from tidewheel.runtime.plan import Build, Schedule

if TYPE_CHECKING:
    import pyarrow as pa

_AS_GOOD_S = 0.001


def declared_schema(topic: str, said: object, known: "pa.Schema | None") -> TopicSchema | None:
    """Return what the records of a topic are: what is ``said``, or else what is ``known`` of the stream, or None.

    Raises:
        DeliveryError: what is said is no type, or the stream is known to have something else.
    """
    stream = None if known is None else topic_schema(known)
    if said is None:
        return stream
    schema = topic_schema(said)
    if stream is not None and not schema.takes(stream.declared()):
        raise SchemaMismatch(
            f"topic {topic!r} cannot have {schema.describe()}: the stream that it publishes has {stream.describe()}",
            topic=topic,
        )
    return schema


def build_publish(topic: str, schema: TopicSchema | None = None) -> Build:
    """Return the build function of an operator that hands its publisher data and frontier changes, in one call a step.

    Data goes before the frontier change that follows it, so a publisher never announces a time as complete before it
    has all of it. Where a subscriber may hold back the publisher, batches stay unread until there is room for them, and
    moves of the frontier wait with them and become one; but for the last, after which this may not be scheduled again.
    A batch that is not what ``schema`` says raises.
    """

    def build(context: OperatorContext) -> Schedule:
        connection: PublisherConnection = context.attachment(topic)
        waiting = WaitingForRoom(context, connection)
        announced: Antichain | None = None

        def hand_over(input: InputPort) -> bool:
            """Take what there is room for; return whether there is more of that."""
            if not connection.has_room():
                return False
            for token, batch in input.whole():
                if schema is not None:
                    schema.check(topic, context.worker, token.time, batch)
                connection.data(token.time, batch)
                if not connection.has_room():
                    return False
            return True

        def schedule(input: InputPort) -> None:
            nonlocal announced
            has_room = hand_over(input)
            frontier = input.frontier
            if not has_room and len(frontier) and (input.queue or frontier != announced):
                connection.flush()
                waiting.begin()
                return
            if frontier != announced and (changes := moved(announced, frontier)):
                connection.frontier(changes)
            announced = frontier
            connection.flush()

        return schedule

    return build


def moved(before: Antichain | None, now: Antichain) -> list[tuple[Time, int]]:
    """Return how the frontier has moved: -1 for each time that has left it, +1 for each that has entered."""
    old = before if before is not None else [now.domain.minimum()]
    return [*((time, -1) for time in old if time not in now), *((time, 1) for time in now if time not in old)]


class WaitingForRoom:
    """Has a publish operator scheduled again when there is room; what is unread until then holds back the sources."""

    def __init__(self, context: OperatorContext, connection: PublisherConnection) -> None:
        self._context = context
        self._connection = connection
        self._alarm_s = -inf

    def begin(self) -> None:
        """Wait, or go on waiting."""
        again_s = self._connection.wait_for_room(self._context.activate)
        self._context.expect_activation()
        if again_s is None:
            return
        now_s = self._context.clock()
        # One timer at a time, however often the operator is scheduled while it waits.
        if not now_s < self._alarm_s <= now_s + again_s + _AS_GOOD_S:
            self._alarm_s = now_s + again_s
            self._context.activator.after(again_s)
