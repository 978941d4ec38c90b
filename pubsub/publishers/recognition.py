"""The comparison of repeated complete epochs with the logs, over all partitions of a topic."""

import logging
import threading
from collections.abc import Generator
from time import monotonic
from typing import Any

from tidewheel.host.until import until
from tidewheel.progress import Time, TimeDomain
from tidewheel.pubsub.errors import DeliveryError, where
from tidewheel.pubsub.messages.wire import Generation
from tidewheel.pubsub.publishers.epochs_again import differing_epochs, first_difference
from tidewheel.pubsub.publishers.publisher_calls import PublisherCalls, answer_of

_LOG = logging.getLogger(__name__)

_WATCH_S = 600.0
_SETTLE_S = 5.0
_STEPS = 4


class Recognition:
    """Asks the publishers of a topic for repeated epochs, and compares them with the logs; only `reason` waits."""

    def __init__(self, domain: TimeDomain, publishers: PublisherCalls) -> None:
        self._domain = domain
        self._publishers = publishers
        self._error: DeliveryError | None = None
        self._lock = threading.Lock()
        self._calls: list[Any] = []
        self._steps: Generator[list[Any], list[Any], None] | None = None
        self._has_lost = False
        self._due_since_s = 0.0

    def begin(self, generation: Generation) -> None:
        with self._lock:
            self._has_lost, self._due_since_s = False, 0.0
            self._steps = self._compare(generation.number) if generation.number else None
            self._calls = [] if self._steps is None else next(self._steps)

    @property
    def is_due(self) -> bool:
        """True if the end of the job must wait for the comparison, or the comparison has failed.

        False while a publisher is dead, and after ten minutes without an answer.
        """
        with self._lock:
            if self._error is not None or self._has_lost or not self._calls:
                return self._error is not None
            self._due_since_s = self._due_since_s or monotonic()
            return monotonic() < self._due_since_s + _WATCH_S

    @property
    def pending(self) -> list[Any]:
        """The pending calls; none while a publisher is dead."""
        import ray

        calls = [] if self._has_lost else self._calls
        return calls and ray.wait(calls, num_returns=len(calls), timeout=0)[1]

    def check(self) -> None:
        """Process the answers so far; raise DeliveryError if the content of an epoch differs."""
        import ray

        with self._lock:
            for _ in range(_STEPS):  # a dead publisher answers at once, and is asked again
                if not self._calls or ray.wait(self._calls, num_returns=len(self._calls), timeout=0)[1]:
                    break
                self._go_on()
        if self._error is not None:
            raise self._error

    def reason(self, timeout_s: float) -> str | None:
        """Wait for the rest of the comparison, at most ``timeout_s`` seconds.

        Describe the epoch that differs, or return None.
        """
        import ray

        within_s = min(timeout_s, _SETTLE_S)
        deadline_s = monotonic() + within_s

        def is_settled() -> bool:
            if self._calls:
                ray.wait(self._calls, num_returns=len(self._calls), timeout=max(0.0, deadline_s - monotonic()))
                try:
                    self.check()
                except DeliveryError as error:
                    _LOG.error("%s", error)
                    return True
            return not self._calls

        until(is_settled, within_s=within_s)
        return None if self._error is None else str(self._error)

    def _go_on(self) -> None:
        answers = [answer_of(call) for call in self._calls]
        self._calls = []
        try:
            assert self._steps is not None, "it has made the calls"
            self._calls = self._steps.send(answers)
        except StopIteration:
            pass

    def _compare(self, generation: int) -> Generator[list[Any], list[Any], None]:
        """Yield calls and receive their answers, in order.

        An answer is None if its publisher has died or cannot answer.
        """
        came: list[Any] = [None]
        while None in came:
            came = yield self._publishers.of_all("came_again", generation, _WATCH_S)
            self._has_lost = None in came
        times = [*dict.fromkeys(time for sums in came for time in sums)]
        logged = (yield self._publishers.of_all("logged", times)) if times else []
        differing = differing_epochs(self._domain, came, logged) if logged and None not in logged else []
        found = yield self._publishers.of_all("compared", differing)
        if differing:
            self._error = self._differs(differing[0], [one or {} for one in found])

    def _differs(self, time: Time, found: list[Any]) -> DeliveryError:
        first, topic = first_difference(found), self._publishers.topic
        text, partition = "other records than the log has", None
        if first is not None:
            partition, (count, record) = first
            text = (
                f"in the log there is {record}, which has not come"
                if count > 0
                else f"there is {record}, which is not in the log"
            )
        return DeliveryError(
            f"{where(topic, partition)}: epoch {time!r} is complete and came again with other content: {text}. "
            "A job that starts again, or goes back to a snapshot, must publish the same records in an epoch. Publish "
            "with visible='snapshot' if they come from clocks, random numbers, or sums of floats that cancel out. Give "
            "another job another log",
            topic=topic,
            partition=partition,
        )
