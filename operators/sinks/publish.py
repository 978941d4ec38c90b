"""The publish operator: one worker's end of a topic's partition."""

from typing import TYPE_CHECKING

from tidewheel.progress import Antichain
from tidewheel.pubsub.connection import PublisherConnection
from tidewheel.pubsub.errors import SchemaMismatch
from tidewheel.pubsub.topic_schema import TopicSchema, topic_schema
from tidewheel.runtime.operator_context import OperatorContext
from tidewheel.runtime.plan import Build, Schedule
from tidewheel.runtime.ports import InputPort

if TYPE_CHECKING:
    import pyarrow as pa


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
    has all of it. Where a subscriber may hold back the publisher, batches stay unread until there is room for them.
    A batch that is not what ``schema`` says raises.
    """

    def build(context: OperatorContext) -> Schedule:
        connection: PublisherConnection = context.attachment(topic)
        announced: Antichain | None = None

        def schedule(input: InputPort) -> None:
            nonlocal announced
            has_room = connection.has_room()
            if has_room:
                for token, batch in input:
                    if schema is not None:
                        schema.check(topic, context.worker, token.time, batch)
                    connection.data(token.time, batch)
                    has_room = connection.has_room()
                    if not has_room:
                        break
            if input.queue and not has_room:
                wait(context, connection)
            frontier = input.frontier
            if frontier == announced:
                connection.flush()
                return
            before = announced if announced is not None else [frontier.domain.minimum()]
            gone = [(time, -1) for time in before if time not in frontier]
            new = [(time, 1) for time in frontier if time not in before]
            if gone or new:
                connection.frontier(gone + new)
            announced = frontier
            connection.flush()

        return schedule

    return build


def wait(context: OperatorContext, connection: PublisherConnection) -> None:
    """Be scheduled again when there is room; what is unread until then holds back the sources."""
    again_s = connection.wait_for_room(context.activate)
    context.expect_activation()
    if again_s is not None:
        context.activator.after(again_s)
