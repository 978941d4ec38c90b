"""The ends of substreams that one worker publishes.

Invariants:

- Each end is published once, by the worker that publishes the records of its substream, after all of them.
- It is at the latest of their times, or, if that is complete by then, at the first time that is not: so epochs become
  complete while substreams are open. Only the last epoch waits until no substream is left, as there is no time after it
  at which their ends could be told.
- It is never before the end of what had the key earlier, whose records may have been delayed by more.
"""

from typing import Any, cast

from tidewheel.progress import Antichain, Time, TimeDomain
from tidewheel.pubsub.errors import DeliveryError
from tidewheel.pubsub.publishers.connection import PublisherConnection
from tidewheel.runtime import InputPort, OperatorContext
from tidewheel.runtime.description.stable_hash import stable_hash
from tidewheel.runtime.substreams.labels import Labels, MixedLabel
from tidewheel.runtime.substreams.substream_ports import SubstreamInput
from tidewheel.runtime.worker.ports import running_input


class PublishedEnds:
    """The ends of one worker.

    Args:
        topic: its name.
        domain: its times.
        merged: whether worker 0 publishes all.
        context: of the operator that publishes.
    """

    def __init__(self, topic: str, domain: TimeDomain, merged: bool, context: OperatorContext) -> None:
        self._topic = topic
        self._domain = domain
        self._worker = context.worker
        self._spread = 1 if merged else context.workers
        self._is_idle = merged and context.worker > 0
        self._latest: dict[Any, Time] = context.state("latest", dict)
        """Of each substream that is open, as far as records of it have come, their latest time."""
        self._to_come: dict[Any, Time] = context.state("to come", dict)
        """The keys whose last end is at a time before which others are not complete, and that time."""

    def note(self, label: Labels | None, time: Time) -> None:
        """Take note of a batch. Complexity: O(its keys).

        Raises:
            DeliveryError: the times of a substream are in no order.
        """
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

    def publish(self, input: InputPort, lower: Antichain, connection: PublisherConnection) -> None:
        """Publish the ends that were told.

        Args:
            input: where they were told.
            lower: the frontier that subscribers were told last; not empty.
            connection: to where they are published.

        Raises:
            DeliveryError: the times of a substream and of the frontier are in no order, or a key cannot be encoded.
        """
        keys_at: dict[Time, list[Any]] = {}
        for key in [key for key, time in self._to_come.items() if not lower.less_equal(time)]:
            del self._to_come[key]
        for key in input.ended:
            if not self._is_idle and (self._spread == 1 or stable_hash(key) % self._spread == self._worker):
                keys_at.setdefault(self._time_of(key, lower), []).append(key)
        for time, keys in keys_at.items():
            connection.ends(time, keys)

    def are_all(self, input: InputPort) -> bool:
        """Tell whether every end was told, as no substream is left, and none can come."""
        ends = cast(SubstreamInput, running_input(input)).ends
        assert ends is not None, "the operator was described so"
        return ends.are_all and not ends

    def _time_of(self, key: Any, lower: Antichain) -> Time:
        """Return the first time that is none of `lower`'s past, nor before the records and the last end of a key."""
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
