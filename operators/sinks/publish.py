"""The publish operator on one worker, and the ends of substreams that it publishes.

Invariants of the ends:

- The worker that publishes the records of a substream publishes its end, once, after all of them.
- The end has the latest time of the records, or the first incomplete time if that is later. So epochs complete while
  substreams are open. Only the last epoch waits until no substream is left, since no later time could have their ends.
- The end never comes before the end of an earlier substream with the same key, even if the earlier substream's records
  were delayed longer.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, cast

from tidewheel.batches.batches import Batch
from tidewheel.operators.base.division import Division, at_first, split_by_key, updated
from tidewheel.operators.keys.record_hash import GatherPact
from tidewheel.operators.sinks.published import Published
from tidewheel.progress import Antichain, Time
from tidewheel.pubsub.errors import DeliveryError, SchemaMismatch
from tidewheel.pubsub.messages.topic_schema import TopicSchema, topic_schema
from tidewheel.pubsub.protocol.epochs import WaitingEpochs
from tidewheel.pubsub.publications.publication import Publication
from tidewheel.pubsub.publishers.feeding import moved
from tidewheel.runtime.description.pacts import Pact, SubstreamPact
from tidewheel.runtime.description.plan import Build
from tidewheel.runtime.description.shards import owner_of
from tidewheel.runtime.messages.labels import Labels, MixedLabel
from tidewheel.runtime.worker.operator_context import OperatorContext, instance_of
from tidewheel.runtime.worker.ports import InputPort, running_input
from tidewheel.runtime.worker.substream_ports import SubstreamInput

if TYPE_CHECKING:
    import pyarrow as pa

    from tidewheel.pubsub.publishers.connection import PublisherConnection

_AS_GOOD_S = 0.001


def declared_schema(topic: str, said: object, known: "pa.Schema | None") -> TopicSchema | None:
    """Return the schema of a topic: ``said``, the user's argument, or else ``known``, the stream's schema.

    Raises:
        DeliveryError: ``said`` is not a schema, or contradicts ``known``.
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


class PublishedEnds:
    """The ends that one worker publishes."""

    def __init__(self, described: Publication, context: OperatorContext) -> None:
        self._topic = described.topic
        self._domain = described.domain
        self._worker = context.worker
        self._workers = 1 if described.partition == "merged" else context.workers
        by_key = Division(split_by_key, updated) if self._workers > 1 else at_first(updated)
        self._latest: dict[Any, Time] = by_key.state(context, "latest", dict)
        """The latest time of the records received from each open substream."""
        self._to_come: dict[Any, Time] = by_key.state(context, "to come", dict)
        """Keys whose last end lies after the first incomplete time, with the end's time."""

    def note(self, label: Labels | None, time: Time) -> None:
        """Record the keys of a batch, in O(keys); raise DeliveryError if a substream's times have no total order."""
        if label is None:  # as can be where streams are joined
            return
        latest, less_equal = self._latest, self._domain.less_equal
        for key in label.distinct if isinstance(label, MixedLabel) else label[1:]:
            before = latest.setdefault(key, time)
            if before != time:
                if less_equal(before, time):
                    latest[key] = time
                elif not less_equal(time, before):
                    raise self._in_no_order(key, [before, time])

    def publish(self, input: InputPort, lower: Antichain, connection: "PublisherConnection") -> None:
        """Publish the ends that ``input`` has reported, at or after the announced frontier ``lower``.

        Raises:
            DeliveryError: times have no total order, or a key cannot be encoded.
        """
        keys_at: dict[Time, list[Any]] = {}
        for key in [key for key, time in self._to_come.items() if not lower.less_equal(time)]:
            del self._to_come[key]
        for key in input.ended:
            owner = 0 if self._workers == 1 else owner_of(key, self._workers)
            if owner == self._worker:
                keys_at.setdefault(self._time_of(key, lower), []).append(key)
        for time, keys in keys_at.items():
            connection.ends(time, keys)

    def are_all(self, input: InputPort) -> bool:
        """Tell whether every end was reported: no substream is left, and none can come."""
        ends = cast(SubstreamInput, running_input(input)).ends
        assert ends is not None, "the operator was described so"
        return ends.are_all and not ends

    def _time_of(self, key: Any, lower: Antichain) -> Time:
        bounds = [bounds.pop(key) for bounds in (self._latest, self._to_come) if key in bounds]
        if not bounds:
            return next(iter(lower))
        *_, last = self._domain.in_order(bounds)
        times = [last, *lower]
        less_equal = self._domain.less_equal
        found = [time for time in times if lower.less_equal(time) and all(less_equal(bound, time) for bound in bounds)]
        if not found:
            raise self._in_no_order(key, [*bounds, *lower])
        if found[0] not in lower:
            self._to_come[key] = found[0]
        return found[0]

    def _in_no_order(self, key: Any, times: list[Time]) -> DeliveryError:
        return DeliveryError(
            f"topic {self._topic!r}, worker {self._worker}: substream {key!r} has records at unordered times, "
            f"{' and '.join(map(repr, times))}, so it ends with no single epoch. Publish without ends=True, or give "
            "each substream times that are totally ordered",
            topic=self._topic,
            partition=self._worker,
        )


@dataclass(frozen=True, slots=True)
class PartitionPact(Pact):
    """Sends records to the worker that feeds their partition of a logged topic, often the sending worker.

    If the number of workers has changed, worker 0 receives the pending records.
    """

    topic: str

    def split(self, batch: Batch, workers: int) -> list[Batch | None]:
        """Return the batch for worker 0; `beside` returns the pact for the others."""
        return GatherPact().split(batch, workers)

    def labelled_parts(
        self, batch: Batch, workers: int, label: Labels | None
    ) -> Iterable[tuple[int, Batch, Labels | None]]:
        """Yield the whole batch for worker 0."""
        return GatherPact().labelled_parts(batch, workers, label)

    def beside(self, attachments: Mapping[str, Any], worker: int) -> Pact | None:
        """Return the pact for a worker, according to its connection to its publisher."""
        connection: PublisherConnection = attachments[self.topic]
        return None if connection.partition == worker else GatherPact(connection.partition)

    def describe(self) -> str:
        return "by partition"


def publish_pact(described: Publication) -> Pact | None:
    """Return the pact of a topic's records; None if records stay on their workers."""
    if described.partition == "merged":
        return GatherPact()
    if described.ends:
        return SubstreamPact()
    return None if described.log is None else PartitionPact(described.topic)


def build_publish(described: Publication) -> Build:
    """Return the build function of an operator that sends data and frontier moves to its publisher, once in each step.

    The operator sends data before the frontier move that follows it. So when a time is announced as complete, the
    publisher has all its records. While a subscriber or a full disk holds back the publisher, batches stay unread.

    A frontier move that completes an epoch with batches is sent at once; otherwise incomplete epochs, which no
    subscriber can acknowledge, could fill the disk of a log. Other moves wait and are merged, except for the last: the
    operator may not be scheduled again. A batch that contradicts the topic's schema raises an error. Ends of substreams
    follow their records, and the frontier becomes empty after the last end.
    """
    return lambda context: _Share(described, context).schedule


class _Share:
    """The operator on one worker."""

    def __init__(self, described: Publication, context: OperatorContext) -> None:
        self._topic = described.topic
        self._schema = described.schema
        self._worker = context.worker
        self._ends = PublishedEnds(described, context) if described.ends else None
        self._connection: PublisherConnection = instance_of(context).attachments[described.topic]
        self._open = WaitingEpochs[None](described.domain)  # the epochs of batches that were handed over
        self._waiting = WaitingForRoom(context, self._connection, instance_of(context).clock)
        self._published = context.state(
            "published", partial(Published, described.domain), split=Published.split, merge=Published.merge
        )
        context.on_close(self._connection.close)
        self._published.connect(self._connection)

    def schedule(self, input: InputPort) -> None:
        connection = self._connection
        has_room = self._hand_over(input)
        frontier = self._frontier_at(input)
        announced = self._published.announced
        has_news = len(frontier) and (not running_input(input).is_empty or frontier != announced)
        waits = not has_room and (has_news or connection.is_awaiting)
        if self._open.take_passed(frontier) or not waits:
            self._move(input, frontier)
        connection.flush()
        if waits:
            self._waiting.begin()

    def _move(self, input: InputPort, frontier: Antichain) -> None:
        announced = self._published.announced
        if self._ends is not None:
            if len(announced):
                self._ends.publish(input, announced, self._connection)
            if not len(frontier) and not self._ends.are_all(input):
                frontier = announced
        if frontier != announced and (changes := moved(announced, frontier)):
            self._connection.frontier(changes)
        self._published.announced = frontier

    def _frontier_at(self, input: InputPort) -> Antichain:
        frontier, published = input.frontier, self._published
        if published.is_behind:
            if not published.announced.dominates(frontier):
                return published.announced
            published.is_behind = False
        return frontier

    def _hand_over(self, input: InputPort) -> bool:
        connection, schema, ends = self._connection, self._schema, self._ends
        if not connection.has_room():
            return False
        for token, batch in running_input(input).whole():
            if schema is not None:
                schema.check(self._topic, self._worker, token.time, batch)
            connection.data(token.time, batch)
            self._open.at(token.time)
            if ends is not None:
                ends.note(token.label, token.time)
            if not connection.has_room():
                return False
        return True


@dataclass(slots=True)
class WaitingForRoom:
    """Schedules a publish operator again when its publisher has room.

    Until then the operator's unread batches hold back the sources.
    """

    context: OperatorContext
    connection: "PublisherConnection"
    clock: Callable[[], float]
    _alarm_s: float = -inf

    def begin(self) -> None:
        """Wait for room, or keep waiting."""
        again_s = self.connection.wait_for_room(self.context.activate)
        self.context.expect_activation()
        if again_s is None:
            return
        now_s = self.clock()
        # There is one timer at a time, however often the operator is scheduled while it waits.
        if not now_s < self._alarm_s <= now_s + again_s + _AS_GOOD_S:
            self._alarm_s = now_s + again_s
            self.context.activator.after(again_s)
