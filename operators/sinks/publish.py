"""The publish operator: one worker's end of a topic's partition."""

from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING

from tidewheel.operators.sinks.published_ends import PublishedEnds
from tidewheel.progress import Antichain, Time
from tidewheel.pubsub.catalog.topic_schema import TopicSchema, topic_schema
from tidewheel.pubsub.errors import SchemaMismatch
from tidewheel.pubsub.publishers.connection import PublisherConnection
from tidewheel.runtime.description.plan import Build, Schedule
from tidewheel.runtime.worker.input_port import InputPort, running_input
from tidewheel.runtime.worker.operator_context import OperatorContext, instance_of

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
    if stream is not None and not schema.takes(stream.declared):
        raise SchemaMismatch(
            f"topic {topic!r} cannot have {schema.declared.text}: the stream that it publishes has "
            f"{stream.declared.text}",
            topic=topic,
        )
    return schema


def build_publish(
    topic: str,
    schema: TopicSchema | None = None,
    ends: Callable[[OperatorContext], PublishedEnds] | None = None,
) -> Build:
    """Return the build function of an operator that hands its publisher data and frontier changes, in one call a step.

    Data goes before the frontier change that follows it, so a publisher never announces a time as complete before it
    has all of it. Where a subscriber may hold back the publisher, batches stay unread until there is room for them, and
    moves of the frontier wait with them and become one; but for the last, after which this may not be scheduled again.
    A batch that is not what ``schema`` says raises. With ``ends``, which makes a worker's `PublishedEnds`, those of
    substreams go behind their records, and the frontier becomes empty after the last of them.
    """

    def build(context: OperatorContext) -> Schedule:
        return _Share(topic, schema, context, None if ends is None else ends(context)).schedule

    return build


class _Share:
    """One worker's share of the operator."""

    def __init__(
        self, topic: str, schema: TopicSchema | None, context: OperatorContext, ends: PublishedEnds | None
    ) -> None:
        self._topic = topic
        self._schema = schema
        self._worker = context.worker
        self._ends = ends
        self._connection: PublisherConnection = instance_of(context).attachments[topic]
        self._waiting = WaitingForRoom(context, self._connection, instance_of(context).clock)
        self._announced: Antichain | None = None

    def schedule(self, input: InputPort) -> None:
        """Hand over what there is room for, and moves of the frontier, or wait for room."""
        connection = self._connection
        has_room = self._hand_over(input)
        frontier = input.frontier
        if not has_room and len(frontier) and (not running_input(input).is_empty or frontier != self._announced):
            connection.flush()
            self._waiting.begin()
            return
        if self._ends is not None:
            frontier = self._hand_over_ends(input, self._ends, frontier)
        if frontier != self._announced and (changes := moved(self._announced, frontier)):
            connection.frontier(changes)
        self._announced = frontier
        connection.flush()

    def _hand_over(self, input: InputPort) -> bool:
        """Take what there is room for; return whether there is more of that."""
        connection, schema, ends = self._connection, self._schema, self._ends
        if not connection.has_room():
            return False
        for token, batch in running_input(input).whole():
            if schema is not None:
                schema.check(self._topic, self._worker, token.time, batch)
            connection.data(token.time, batch)
            if ends is not None:
                ends.note(token.label, token.time)
            if not connection.has_room():
                return False
        return True

    def _hand_over_ends(self, input: InputPort, ends: PublishedEnds, frontier: Antichain) -> Antichain:
        """Take the ends that were told; return the frontier, which is not empty before all were."""
        domain = frontier.domain
        before = Antichain(domain, [domain.minimum()]) if self._announced is None else self._announced
        if len(before):
            ends.publish(input, before, self._connection)
        return frontier if len(frontier) or ends.are_all(input) else before


def moved(before: Antichain | None, now: Antichain) -> list[tuple[Time, int]]:
    """Return how the frontier has moved: -1 for each time that has left it, +1 for each that has entered."""
    old = before if before is not None else [now.domain.minimum()]
    return [*((time, -1) for time in old if time not in now), *((time, 1) for time in now if time not in old)]


class WaitingForRoom:
    """Has a publish operator scheduled again when there is room; what is unread until then holds back the sources."""

    def __init__(self, context: OperatorContext, connection: PublisherConnection, clock: Callable[[], float]) -> None:
        self._context = context
        self._clock = clock
        self._connection = connection
        self._alarm_s = -inf

    def begin(self) -> None:
        """Wait, or go on waiting."""
        again_s = self._connection.wait_for_room(self._context.activate)
        self._context.expect_activation()
        if again_s is None:
            return
        now_s = self._clock()
        # One timer at a time, however often the operator is scheduled while it waits.
        if not now_s < self._alarm_s <= now_s + again_s + _AS_GOOD_S:
            self._alarm_s = now_s + again_s
            self._context.activator.after(again_s)
