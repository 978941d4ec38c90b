"""The publication of a topic by Ray actors, which are started, watched and ended here."""

import logging
import threading
from collections.abc import Callable, Sequence
from functools import partial
from time import monotonic
from typing import Any, Final

from tidewheel.host.attachment import AttachmentHost
from tidewheel.host.log_lines import LogSettings
from tidewheel.host.ray_cluster import cluster, left, membership, process_id
from tidewheel.host.until import until
from tidewheel.progress import Time
from tidewheel.pubsub.catalog.registration import CatalogEntry
from tidewheel.pubsub.errors import DeliveryError, PublisherLost
from tidewheel.pubsub.exactly_once.journal import LogPlace, have_all, next_generation
from tidewheel.pubsub.messages.wire import FIRST, Generation
from tidewheel.pubsub.protocol.topic_end import PartitionEnd, TopicEnd
from tidewheel.pubsub.publications.publication import STOPPED_EARLY, Publication, RunningPublication
from tidewheel.pubsub.publishers.connection import AWAITED_AGAIN_S, AWAITED_S, RayConnection, log_awaited
from tidewheel.pubsub.publishers.feeding import feeder_of
from tidewheel.pubsub.publishers.publisher_calls import PublisherCalls, answer_of, logged_partitions, start_publishers
from tidewheel.pubsub.publishers.recognition import Recognition
from tidewheel.pubsub.publishers.retired_publishers import retire, take_over

_LOG = logging.getLogger(__name__)

_LOOK_S = 1.0
_END_GRACE_S = 1.0
_FAILURE_GRACE_S = 5.0
AWAY: Final = "its publisher is being started again"

_WATCH_S = 600.0
_OPEN_S = 120.0
_CLOSE_S = 10.0


class RayPublication(RunningPublication):
    """One publisher actor for each partition, on the node of its worker.

    The actors end with the process that has started them. Until then, Ray restarts an actor if it has a log or its job
    keeps snapshots.
    """

    def __init__(self, publication: Publication, host: AttachmentHost) -> None:
        super().__init__(publication.topic)
        self._lock = threading.Lock()
        self._joined = membership()
        self._is_finished = False
        self._is_durable = False
        self._end_reason: str | None = None
        self._log = "" if publication.log is None else publication.log.of_topic(publication.topic)
        self._nodes = tuple(host.nodes)
        log = publication.log
        may_stay = publication.partition == "worker" and not publication.ends
        self._publishers = start_publishers(
            publication.topic,
            partial(publication.maker, is_remembered=host.keeps_snapshots),
            host.nodes,
            publication.partitions(host),
            starts_again=bool(self._log) or host.keeps_snapshots,
            logged=partial(logged_partitions, log, publication.topic, publication.domain) if log and may_stay else None,
            logs=LogSettings.here(job=host.job),
        )
        self._unread = set(range(len(self._publishers)))
        self._calls = PublisherCalls(self._topic, self._publishers)
        self._end_of_topic = TopicEnd(len(self._publishers))
        self._ends_alone = not (self._log or host.keeps_snapshots)
        self._awaited = publication.awaited
        self._domain = publication.domain
        self._ends = publication.ends
        self._generation = FIRST
        self._recognition = Recognition(self._domain, self._calls)
        self._lonely = set(range(len(self._publishers)))
        self._away: set[int] = set()
        self._entry = CatalogEntry(publication.entry(host, self._publishers))
        try:
            self._entry.register()
            if self._log:
                take_over(self._log)
                self._open()
        except BaseException:
            self._calls.kill()
            raise
        self._connections = [
            RayConnection(
                self._topic,
                partition,
                publication.domain,
                publisher,
                bool(self._log),
                bool(self._awaited),
                host.keeps_snapshots,
                self._generation,
                publication.has_history,
            )
            for partition, publisher in enumerate(self._publishers)
        ]
        self.handles = publication.handles(host, self._connections)
        self._problems: dict[int, str] = {}
        self._waiting: dict[Any, tuple[Callable[[int, Any], None], int]] = {}
        for partition in range(len(self._publishers)):
            self._watch(partition)
            self._await(partition, AWAITED_S)
            if self._log:
                self._listen_for_problems(partition)

    def _open(self) -> None:
        import ray

        places: list[LogPlace] = []
        calls = [publisher.open.remote() for publisher in self._publishers]
        ray.wait(calls, num_returns=len(calls), timeout=_OPEN_S)
        for partition, call in enumerate(calls):
            try:
                places.append(ray.get(call, timeout=0))
            except ray.exceptions.RayError as error:
                reason = getattr(error, "cause", None) or error
                self._entry.retract(f"its log cannot be opened: {reason}")
                if isinstance(reason, DeliveryError):
                    raise reason from None
                text = f"topic {self._topic!r}, partition {partition}: its log cannot be opened: {error}"
                raise DeliveryError(text, topic=self._topic, partition=partition) from error
        places = self._concluded(places)
        has_begun = any(place.has_begun for place in places)
        self._awaited = 0 if has_begun else self._awaited
        if has_begun and self._ends:
            refusal = (
                f"the log in {self._log} has something already, and a job that starts again with ends=True may tell an "
                "end in another epoch. Give this run a log of its own, or publish without ends"
            )
            self._entry.retract(refusal)
            raise DeliveryError(f"topic {self._topic!r}: {refusal}", topic=self._topic)
        self._go_on_from(places)
        if not any(place.lower for place in places):
            _LOG.warning(
                "topic %r: the log in %s has the topic to its end already, so what this job publishes is left out. "
                "If it is to publish anew, give it a log of its own. If it goes on where it was, nothing is missing",
                self._topic,
                self._log,
            )

    def _concluded(self, places: list[LogPlace]) -> list[LogPlace]:
        if not have_all(places):
            return places
        self._calls.answers("end", {}, 0.0)
        return self._calls.answers("place", _LOOK_S)

    def _go_on_from(self, places: Sequence[LogPlace]) -> None:
        self._generation = next_generation(self._domain, places) if not self._ends else self._generation
        self._end_of_topic.go_back(self._generation.number)
        self._recognition.begin(self._generation)

    @property
    def pending(self) -> list[Any]:
        # Calls to other publishers may fail while those publishers are being restarted.
        away = range(len(self._publishers)) if self._ends_alone else self._away
        return self._recognition.pending + [call for call, at in self._watching().items() if at not in away]

    def _watching(self) -> dict[Any, int]:
        return {call: at for call, (take_answer, at) in list(self._waiting.items()) if take_answer == self._ended}

    @property
    def has_ended(self) -> bool:
        """True if the end of the topic is final, and all repeated messages are compared."""
        return (self._ends_alone or self._end_of_topic.is_final) and not self._recognition.is_due

    def check(self) -> None:
        import ray

        if self._waiting:
            ready = ray.wait(list(self._waiting), num_returns=len(self._waiting), timeout=0)[0]
            # Answers of dead publishers raise, so they are read last, after earlier answers about subscribers.
            for call in sorted(ready, key=self.pending.__contains__):
                found = self._waiting.pop(call, None)  # `go_back` takes calls out on another thread
                if found is not None:
                    found[0](found[1], call)
        self._recognition.check()
        self._entry.keep()

    @property
    def problem(self) -> str | None:
        found = (f"partition {partition}: {text}" for partition, text in sorted(self._problems.items()) if text)
        return self._entry.problem or next(found, None)

    def _watch(self, partition: int) -> None:
        end = self._end_of_topic
        if self._ends_alone:
            call = self._calls.call(partition, "ended", _WATCH_S)
        elif end.is_final:  # Ray repeats the call of a dead publisher at the next one
            call = self._calls.call(partition, "end", dict(end.ends), _WATCH_S, again=True)
        elif partition in end.ends:
            call = self._calls.call(partition, "drained", _WATCH_S)
        else:
            call = self._calls.call(partition, "known_end", self._generation.number, _WATCH_S, process_id())
        self._waiting[call] = self._ended, partition

    def _watch_all(self) -> None:
        for partition in range(len(self._publishers)):
            self._watch(partition)

    def _watch_no_more(self) -> None:
        for call in self._watching():
            self._waiting.pop(call, None)

    def _await(self, partition: int, within_s: float) -> None:
        if self._awaited:
            call = self._publishers[partition].awaited.remote(within_s)
            self._waiting[call] = self._have_come, partition

    def _have_come(self, partition: int, call: Any) -> None:
        if answer_of(call):
            self._lonely.discard(partition)
            return
        if partition == min(self._lonely):  # one line for all of them
            log_awaited(self._topic, self._awaited, f" on the Ray cluster at {cluster()}")
        self._await(partition, AWAITED_AGAIN_S)

    def _ended(self, partition: int, call: Any) -> None:
        import ray

        try:
            found = ray.get(call)
        except ray.exceptions.RayError as error:
            if not (self._log and isinstance(error, ray.exceptions.ActorUnavailableError)):
                with self._lock:
                    self._end_of_topic.lose(partition)
                raise PublisherLost.at(self._topic, partition, f"is dead: {error}") from error
            _LOG.warning("topic %r, partition %s: the publisher is started again: %s", self._topic, partition, error)
            self._away.add(partition)
            self._watch(partition)
            return
        self._away.discard(partition)
        if isinstance(found, PartitionEnd):
            self._receive_end(partition, found)
        elif not found:
            self._watch(partition)
        elif self._end_of_topic.is_final and not self._log:
            self._unread.discard(partition)

    def _receive_end(self, partition: int, found: PartitionEnd) -> None:
        with self._lock:  # `go_back` makes these facts void
            if self._end_of_topic.receive(partition, found):
                self._watch_no_more()
                self._watch_all()
            elif partition in self._end_of_topic.ends:
                self._watch(partition)

    def _listen_for_problems(self, partition: int) -> None:
        call = self._publishers[partition].problem.remote(self._problems.get(partition, ""), _WATCH_S)
        self._waiting[call] = self._problem_changed, partition

    def _problem_changed(self, partition: int, call: Any) -> None:
        import ray

        try:
            self._problems[partition] = ray.get(call)
        except ray.exceptions.RayError:
            self._problems[partition] = AWAY
        self._listen_for_problems(partition)

    def go_back(self, nodes: Sequence[str]) -> None:
        """Prepare for a return to a snapshot, with workers on these nodes; earlier workers cannot send any more."""
        self._recognition.check()
        for partition in range(len(self._publishers)):
            worker = feeder_of(partition, len(nodes))
            if nodes[worker] != self._nodes[worker]:
                moved = "its worker is on another node now, and a publisher stays where it is"
                raise PublisherLost.at(self._topic, partition, f"cannot be reached: {moved}")
        end = self._end_of_topic
        with self._lock:
            self._watch_no_more()
            if not self._log:
                self._generation = Generation(self._generation.number + 1)
                end.go_back(self._generation.number)
        readers = {name for names in self._calls.answers("go_back", bool(self._lonely)) for name in names}
        if self._log:
            self._go_on_from(self._concluded(self._calls.answers("place", _LOOK_S)))
        else:  # a publisher that was started again knows no readers, so it is told those of all partitions
            self._calls.answers("go_back", bool(self._lonely), sorted(readers))
            if end.is_final:  # before the workers repeat the end
                self._calls.answers("end", dict(end.ends), 0.0)
        self._watch_all()
        for connection in self._connections:
            connection.generation = self._generation

    def wait_for_subscribers(self, count: int, timeout_s: float) -> None:
        # A publisher that has not answered in time may still be starting: the next call asks it again.
        answers = self._calls.ask("wait_for_subscribers", count, timeout_s, within_s=timeout_s, give_up=False)
        if any(answer is None or answer < count for answer in answers):
            raise self._too_few(count, [answer or 0 for answer in answers], timeout_s)

    def wait_until(self, time: Time, timeout_s: float) -> None:
        if not self._log:
            super().wait_until(time, timeout_s)
        deadline_s = monotonic() + timeout_s

        def is_durable() -> bool:
            left_s = min(_LOOK_S, max(0.0, deadline_s - monotonic()))
            reason = self._end_reason  # taken before the call: messages that become durable until then are found
            if self._is_durable or all(self._calls.ask("reached", time, left_s, within_s=left_s, give_up=False)):
                return True
            if reason is not None:
                missing = f"not all before {time!r} is known to be durable, and no more gets so: {reason}"
                raise DeliveryError(f"topic {self._topic!r}: {missing}", topic=self._topic)
            return False  # a publisher is being started again

        def late() -> TimeoutError:
            return TimeoutError(f"topic {self._topic!r}: not all before {time!r} was durable within {timeout_s:g} s")

        until(is_durable, within_s=timeout_s, error=late)

    def statistics(self) -> list[dict[str, int]]:
        return [answer or {} for answer in self._calls.ask("statistics", within_s=0.0, give_up=False)]

    def finish(self, error: str | None, timeout_s: float, *, on_purpose: bool = False) -> None:
        with self._lock:
            if self._is_finished:
                return
            self._is_finished = True
            self._end_reason = error
        if left(self._joined):
            return  # the publishers have died with the cluster, or with this process's part in it
        deadline_s = monotonic() + timeout_s
        self._watch_no_more()
        unread = sorted(self._unread)
        try:
            error = self._end_reason = self._recognition.reason(timeout_s) if error is None else error
            self._entry.retract(error)
            self._end(error, deadline_s, unread, on_purpose=on_purpose)
            are_read = self._calls.ask("drained", 0.0, within_s=0.0, of=unread)
        except BaseException:
            self._calls.kill()
            raise
        # In total order, readers of one log need the silence of the other logs. A restarted publisher has its log.
        stay = {False, True, None} if self._log and set(are_read) != {True} else {False}
        late = [partition for partition, is_read in zip(unread, are_read, strict=True) if is_read in stay]
        done = [partition for partition in range(len(self._publishers)) if partition not in late]
        if self._log:
            self._calls.ask("close", within_s=_CLOSE_S, of=done)  # acknowledgements become durable
        self._calls.kill(done)
        if late:
            publishers = [self._publishers[partition] for partition in late]
            retire(self._log, publishers, self._calls.kill_silent if None in are_read else None)

    def _end(self, error: str | None, deadline_s: float, unread: list[int], *, on_purpose: bool) -> None:
        reason = error
        if self._end_of_topic.is_final:
            self._calls.ask("end", dict(self._end_of_topic.ends), 0.0, within_s=_FAILURE_GRACE_S, again=True, of=unread)
        if reason is None:
            # A worker's last call may still be in flight when the driver notices that the job is complete.
            grace_s = min(_END_GRACE_S, max(0.0, deadline_s - monotonic()))
            within_s = _FAILURE_GRACE_S if self._log else grace_s
            found = self._calls.ask("ended", grace_s, within_s=within_s, again=bool(self._log), of=unread)
            self._end_reason = reason = None if all(found) else STOPPED_EARLY
            # A partition whose log can no longer be written has also ended.
            if reason is None and self._log:
                self._is_durable = set(self._calls.ask("problem", within_s=0.0, give_up=False)) == {""}
        remaining_s = max(0.0, deadline_s - monotonic())
        if reason is not None:
            remaining_s = min(remaining_s, _FAILURE_GRACE_S)
            self._calls.ask("fail", reason, on_purpose, within_s=_END_GRACE_S)
        if not all(self._calls.ask("drained", remaining_s, process_id(), within_s=remaining_s, of=unread)):
            _LOG.warning("topic %r: some subscribers may not have fetched its last messages", self._topic)
