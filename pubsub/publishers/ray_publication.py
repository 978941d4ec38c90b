"""A running publication of a job in Ray actors."""

import logging
import threading
from collections.abc import Sequence
from dataclasses import asdict
from time import monotonic, sleep
from typing import Any, Final

from tidewheel.progress import Time
from tidewheel.pubsub.catalog.registration import CatalogEntry
from tidewheel.pubsub.errors import DeliveryError, PublisherLost
from tidewheel.pubsub.publishers.ray_connection import RayConnection
from tidewheel.pubsub.publishers.ray_publishers import start_publishers
from tidewheel.pubsub.publishers.retired_publishers import retire, take_over
from tidewheel.pubsub.publishers.running_publication import STOPPED_EARLY, RunningPublication
from tidewheel.pubsub.publishers.topic_description import TopicDescription
from tidewheel.transport.attachment import AttachmentHost
from tidewheel.transport.ray_cluster import process_id

_LOG = logging.getLogger(__name__)

_AGAIN_S = 0.2
_LOOK_S = 1.0
_END_GRACE_S = 1.0
_FAILURE_GRACE_S = 5.0
_REPLY_MARGIN_S = 2.0
AWAY: Final = "its publisher is being started again"

_WATCH_S = 600.0
_OPEN_S = 120.0
_CLOSE_S = 10.0


class RayPublication(RunningPublication):
    """One publisher actor for each partition, on the node of its worker.

    They die with the process that started them, if nobody finishes them. Those with a log are started again by Ray as
    long as that lives.
    """

    def __init__(self, publication: TopicDescription, host: AttachmentHost) -> None:
        super().__init__(publication.topic)
        self._lock = threading.Lock()
        self._is_finished = False
        self._is_durable = False
        self._end_reason: str | None = None
        self._silent: set[int] = set()
        self._log = "" if publication.log is None else publication.log.of_topic(publication.topic)
        self._publishers = start_publishers(publication, host)
        self._entry = CatalogEntry(publication.entry(host, self._publishers))
        try:
            self._entry.register()
            if self._log:
                take_over(self._log)
                if self._open() and publication.ends:
                    self._refuse_to_go_on()
                self._warn_of_an_end()
        except BaseException:
            self._kill()
            raise
        self.handles = publication.handles(
            host,
            [
                RayConnection(self._topic, partition, publication.domain, publisher, has_log=bool(self._log))
                for partition, publisher in enumerate(self._publishers)
            ],
        )
        self._problems: dict[int, str] = {}
        self._heard: dict[Any, int] = {}
        if self._log:
            for partition in range(len(self._publishers)):
                self._listen_for_problems(partition)
        # Calls that are answered when a partition has ended, and at once when its publisher dies.
        self._watched = {
            publisher.ended.remote(_WATCH_S): partition for partition, publisher in enumerate(self._publishers)
        }

    def _open(self) -> bool:
        """Have the logs opened; return whether there is anything in one of them.

        Raises:
            DeliveryError: one of them cannot be.
        """
        import ray

        has_begun = False

        calls = [publisher.open.remote() for publisher in self._publishers]
        ray.wait(calls, num_returns=len(calls), timeout=_OPEN_S)
        refused: list[tuple[int, Exception]] = []
        for partition, call in enumerate(calls):
            try:
                has_begun |= ray.get(call, timeout=0)
            except ray.exceptions.RayError as error:
                refused.append((partition, error))
        for partition, refusal in refused:
            reason = getattr(refusal, "cause", None) or refusal
            self._entry.retract(f"its log cannot be opened: {reason}")
            if isinstance(reason, DeliveryError):
                raise reason from None
            text = f"topic {self._topic!r}, partition {partition}: its log cannot be opened: {refusal}"
            raise DeliveryError(text, topic=self._topic, partition=partition) from refusal
        return has_begun

    def _refuse_to_go_on(self) -> None:
        """Raise DeliveryError: where a log goes on, some ends of substreams might be in it twice, and others never."""
        reason = (
            f"the log in {self._log} has something already, and a job that starts again with ends=True may tell an end "
            "in another epoch. Give this run a log of its own, or publish without ends"
        )
        self._entry.retract(reason)
        raise DeliveryError(f"topic {self._topic!r}: {reason}", topic=self._topic)

    def _warn_of_an_end(self) -> None:
        """Say so if the log is that of a job which ran to its end: what another run publishes is not in it then."""
        if all(self._ask("ended", 0.0, within_s=0.0, give_up=False)):
            _LOG.warning(
                "topic %r: the log in %s has the topic to its end already, so what this job publishes is left out. "
                "Give another run a log of its own, or remove that directory first",
                self._topic,
                self._log,
            )

    def check(self) -> None:
        """Look whether all publishers live, and whether the catalog knows them; do not wait."""
        if self._watched:
            self._check_publishers()
        if self._heard:
            self._hear_problems()
        self._entry.keep()

    @property
    def problem(self) -> str | None:
        """Why nobody can find the topic who looks for it now, or nothing is published; None if neither is so."""
        found = (f"partition {partition}: {text}" for partition, text in sorted(self._problems.items()) if text)
        return self._entry.problem or next(found, None)

    def _check_publishers(self) -> None:
        import ray

        done, _ = ray.wait(list(self._watched), num_returns=len(self._watched), timeout=0)
        for call in done:
            partition = self._watched.pop(call)
            try:
                has_ended = ray.get(call)
            except ray.exceptions.ActorUnavailableError as error:
                if not self._log:
                    raise self._lost(partition, error) from error
                _LOG.warning(
                    "topic %r, partition %s: the publisher is started again: %s", self._topic, partition, error
                )
                has_ended = False
            except ray.exceptions.RayError as error:
                raise self._lost(partition, error) from error
            if not has_ended:
                self._watched[self._publishers[partition].ended.remote(_WATCH_S)] = partition

    def _hear_problems(self) -> None:
        import ray

        for call in ray.wait(list(self._heard), num_returns=len(self._heard), timeout=0)[0]:
            partition = self._heard.pop(call)
            try:
                self._problems[partition] = ray.get(call)
            except ray.exceptions.RayError:
                self._problems[partition] = AWAY
            self._listen_for_problems(partition)

    def _listen_for_problems(self, partition: int) -> None:
        known = self._problems.get(partition, "")
        call = self._publishers[partition].problem.remote(known, _WATCH_S)
        self._heard[call] = partition

    def _lost(self, partition: int, error: Exception) -> PublisherLost:
        text = f"topic {self._topic!r}, partition {partition}: the publisher is dead: {error}"
        return PublisherLost(text, topic=self._topic, partition=partition)

    def wait_for_subscribers(self, count: int, timeout: float) -> None:
        """Wait until ``count`` subscribers are connected to every partition, ``timeout`` seconds at most."""
        # One that has not answered in time may only be starting: it is asked again the next time.
        answers = self._ask("wait_for_subscribers", count, timeout, within_s=timeout, give_up=False)
        if any(answer is None or answer < count for answer in answers):
            raise self._too_few(count, [answer or 0 for answer in answers], timeout)

    def wait_until(self, time: Time, timeout: float) -> None:
        """Wait until every time before ``time`` is durable at every partition.

        Raises:
            TimeoutError: it was not within ``timeout`` seconds.
            DeliveryError: the topic has no log; or its job has failed or was stopped, so no more gets durable.
        """
        if not self._log:
            super().wait_until(time, timeout)
        deadline_s = monotonic() + timeout
        while True:
            left_s = min(_LOOK_S, max(0.0, deadline_s - monotonic()))
            reason = self._end_reason  # of before: what has become durable until then is found
            if self._is_durable or all(self._ask("reached", time, left_s, within_s=left_s, give_up=False)):
                return
            if reason is not None:
                missing = f"not all before {time!r} is known to be durable, and no more gets so: {reason}"
                raise DeliveryError(f"topic {self._topic!r}: {missing}", topic=self._topic)
            if monotonic() >= deadline_s:
                raise TimeoutError(f"topic {self._topic!r}: not all before {time!r} was durable within {timeout:g} s")
            sleep(min(_AGAIN_S, max(0.0, deadline_s - monotonic())))  # a publisher is being started again

    def statistics(self) -> list[dict[str, int]]:
        """Return what each partition has done; nothing of one that does not answer in time."""
        answers = self._ask("statistics", within_s=0.0, give_up=False)
        return [{} if answer is None else asdict(answer) for answer in answers]

    def finish(self, error: str | None, timeout: float) -> None:
        """End the topic, let its subscribers fetch the last messages, and stop the publishers."""
        import ray

        with self._lock:
            if self._is_finished:
                return
            self._is_finished = True
            self._end_reason = error
        if not ray.is_initialized():
            return  # Ray was shut down, and the publishers with it
        deadline_s = monotonic() + timeout
        try:
            self._entry.retract(error)
            self._end(error, deadline_s)
            are_read = self._ask("drained", 0.0, within_s=0.0)
        except BaseException:
            self._kill()
            raise
        late = [partition for partition, is_read in enumerate(are_read) if is_read is False]
        done = [partition for partition, is_read in enumerate(are_read) if is_read is not False]
        if self._log:
            self._ask("close", within_s=_CLOSE_S, of=done)  # what was acknowledged becomes durable
        for partition in done:
            ray.kill(self._publishers[partition], no_restart=True)
        if late:
            retire(self._log, [self._publishers[partition] for partition in late])

    def _end(self, error: str | None, deadline_s: float) -> None:
        reason = error
        if reason is None:
            # The last call of a worker may still be on its way when the job is seen to be complete.
            grace_s = min(_END_GRACE_S, max(0.0, deadline_s - monotonic()))
            reason = None if all(self._ask("ended", grace_s, within_s=grace_s)) else STOPPED_EARLY
            self._end_reason = reason
            # A partition has ended, too, if its log cannot be written any more.
            self._is_durable = reason is None and bool(self._log) and self._has_no_problem()
        remaining_s = max(0.0, deadline_s - monotonic())
        if reason is not None:
            remaining_s = min(remaining_s, _FAILURE_GRACE_S)
            self._ask("fail", reason, within_s=_REPLY_MARGIN_S)
        if not all(self._ask("drained", remaining_s, process_id(), within_s=remaining_s)):
            _LOG.warning("topic %r: some subscribers may not have fetched its last messages", self._topic)

    def _has_no_problem(self) -> bool:
        return all(answer == "" for answer in self._ask("problem", within_s=0.0, give_up=False))

    def _ask(
        self, method: str, *arguments: Any, within_s: float, give_up: bool = True, of: Sequence[int] | None = None
    ) -> list[Any]:
        """Call every publisher; return the answers by partition, None for one that is dead or does not answer.

        With ``give_up``, one that has not answered in time, because it hangs, is not waited for again. With ``of``,
        only those of some partitions are called.
        """
        import ray

        partitions = range(len(self._publishers)) if of is None else of
        calls = {partition: getattr(self._publishers[partition], method).remote(*arguments) for partition in partitions}
        waiting = [call for partition, call in calls.items() if partition not in self._silent]
        done = ray.wait(waiting, num_returns=len(waiting), timeout=within_s + _REPLY_MARGIN_S)[0] if waiting else []
        if give_up:
            self._silent.update(partition for partition, call in calls.items() if call not in done)
        return [_answer(call) if call in done else None for call in calls.values()]

    def _kill(self) -> None:
        import ray

        for publisher in self._publishers:
            ray.kill(publisher, no_restart=True)


def _answer(call: Any) -> Any:
    import ray

    try:
        return ray.get(call)
    except ray.exceptions.RayError as error:
        _LOG.debug("a publisher did not answer: %s", error)
        return None
