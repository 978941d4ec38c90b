"""The publish operator: one worker's end of a topic's partition."""

from tidewheel.progress import Antichain
from tidewheel.pubsub import PublisherConnection
from tidewheel.runtime.operator_context import OperatorContext
from tidewheel.runtime.plan import Build, Schedule
from tidewheel.runtime.ports import InputPort


def build_publish(topic: str) -> Build:
    """Return the build function of an operator that hands its publisher data and frontier changes, in one call a step.

    Data goes before the frontier change that follows it, so a publisher never announces a time as complete before it
    has all of it. Where a subscriber may hold back the publisher, batches stay unread until there is room for them.
    """

    def build(context: OperatorContext) -> Schedule:
        connection: PublisherConnection = context.attachment(topic)
        announced: Antichain | None = None

        def schedule(input: InputPort) -> None:
            nonlocal announced
            has_room = connection.has_room()
            if has_room:
                for token, batch in input:
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
