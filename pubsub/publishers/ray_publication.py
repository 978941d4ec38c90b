"""A running publication of a job in Ray actors: their start, their watch and their end."""

import logging
import threading
from collections.abc import Callable, Sequence
from functools import partial
from time import monotonic, sleep
from typing import Any, Final

from tidewheel.progress import Time
from tidewheel.pubsub.catalog.registration import CatalogEntry
from tidewheel.pubsub.errors import DeliveryError, PublisherLost
from tidewheel.pubsub.exactly_once.journal import LogPlace, next_generation
from tidewheel.pubsub.messages.wire import FIRST, Generation
from tidewheel.pubsub.publishers.connection import AWAITED_AGAIN_S, AWAITED_S, RayConnection, log_awaited
from tidewheel.pubsub.publishers.durable_partition import DurablePartition
from tidewheel.pubsub.publishers.live_partition import LivePartition
from tidewheel.pubsub.publishers.publication import STOPPED_EARLY, Publication, RunningPublication
from tidewheel.pubsub.publishers.publisher_actor import MakePartition, PublisherActor
from tidewheel.pubsub.publishers.recognition import Recognition, answer_of
from tidewheel.pubsub.publishers.retired_publishers import retire, take_over
from tidewheel.pubsub.publishers.topic_log import identity_of
from tidewheel.transport.attachment import AttachmentHost
from tidewheel.transport.ray_cluster import actor_class, cluster, left, membership, process_id

_LOG = logging.getLogger(__name__)

_AGAIN_S = 0.2
_LOOK_S = 1.0
_END_GRACE_S = 1.0
_FAILURE_GRACE_S = 5.0
_REPLY_MARGIN_S = 2.0
AWAY: Final = "its publisher is being started again"

_WATCH_S = 600.0
_OPEN_S = 120.0
_GO_BACK_S = 30.0
_CLOSE_S = 10.0


class RayPublication(RunningPublication):
    """One publisher actor for each partition, on the node of its worker.

    They die with the process that started them, unless they are finished before. As long as it lives, Ray starts those
    again that have a log, and those of a job that keeps snapshots. Without a log, the job has to go back then.
    """

    def __init__(self, publication: Publication, host: AttachmentHost) -> None:
        super().__init__(publication.topic)
        self._lock = threading.Lock()
        self._joined = membership()
        self._is_finished = False
        self._is_durable = False
        self._end_reason: str | None = None
        self._silent: set[int] = set()
        self._over: set[int] = set()
        self._log = "" if publication.log is None else publication.log.of_topic(publication.topic)
        self._nodes = tuple(host.nodes)
        self._publishers = _start_publishers(publication, host)
        self._awaited = publication.awaited
        self._domain = publication.domain
        self._ends = publication.ends
        self._generation = FIRST
        self._recognition = Recognition(self._topic, self._domain, self._publishers)
        self._lonely = set(range(len(self._publishers)))
        self._entry = CatalogEntry(publication.entry(host, self._publishers))
        try:
            self._entry.register()
            if self._log:
                take_over(self._log)
                self._open()
        except BaseException:
            self._kill()
            raise
        self.handles = publication.handles(
            host,
            [
                RayConnection(
                    self._topic,
                    partition,
                    publication.domain,
                    publisher,
                    bool(self._log),
                    bool(self._awaited),
                    host.keeps_snapshots,
                    self._generation,
                )
                for partition, publisher in enumerate(self._publishers)
            ],
        )
        self._problems: dict[int, str] = {}
        self._waiting: dict[Any, tuple[Callable[[int, Any], None], int]] = {}
        for partition in range(len(self._publishers)):
            self._watch(partition)
            self._await(partition, AWAITED_S)
            if self._log:
                self._listen_for_problems(partition)

    def _open(self) -> None:
        """Have the logs opened; warn if the topic is in them to its end, as nothing more is logged then.

        Raises:
            DeliveryError: one of them cannot be, or has something already of a topic with ``ends``: where a log goes
                on, some ends of substreams might be in it twice, and others never.
        """
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
                "Give another run a log of its own, or remove that directory first",
                self._topic,
                self._log,
            )

    def _go_on_from(self, places: Sequence[LogPlace]) -> None:
        """Begin a new generation, if the logs have anything; not where ends are published."""
        self._generation = next_generation(self._domain, places) if not self._ends else self._generation
        self._recognition.begin(self._generation)

    def check(self) -> None:
        """Look whether all publishers live, and whether the catalog knows them; do not wait."""
        import ray

        if self._waiting:
            for call in ray.wait(list(self._waiting), num_returns=len(self._waiting), timeout=0)[0]:
                found = self._waiting.pop(call, None)  # `go_back` takes calls out on another thread
                if found is not None:
                    found[0](found[1], call)
        self._recognition.check()
        self._entry.keep()

    @property
    def problem(self) -> str | None:
        """The reason why the topic cannot be found now, or publishes nothing; None if there is none."""
        found = (f"partition {partition}: {text}" for partition, text in sorted(self._problems.items()) if text)
        return self._entry.problem or next(found, None)

    def _watch(self, partition: int) -> None:
        """Have a call wait that is answered when a partition has ended, and at once when its publisher dies."""
        self._waiting[self._publishers[partition].ended.remote(_WATCH_S)] = self._ended, partition

    def _watch_anew(self) -> None:
        """Watch all publishers by new calls: those of before may fail yet, of one that is started again already."""
        for call in [call for call, (take_answer, _) in list(self._waiting.items()) if take_answer == self._ended]:
            self._waiting.pop(call, None)
        for partition in range(len(self._publishers)):
            self._watch(partition)

    def _await(self, partition: int, within_s: float) -> None:
        """Have a call wait that is answered when the first subscribers of a partition have come, or after some time."""
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
            has_ended = ray.get(call)
        except ray.exceptions.ActorUnavailableError as error:
            if not self._log:
                raise PublisherLost.at(self._topic, partition, f"is dead: {error}") from error
            _LOG.warning("topic %r, partition %s: the publisher is started again: %s", self._topic, partition, error)
            has_ended = False
        except ray.exceptions.RayError as error:
            raise PublisherLost.at(self._topic, partition, f"is dead: {error}") from error
        if has_ended:
            self._over.add(partition)
        else:
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
        """Prepare for workers, on these nodes, that go back to a snapshot; those of before do not send any more."""
        self._recognition.check()
        for partition in range(len(self._publishers)):
            if nodes[partition] != self._nodes[partition]:
                moved = "its worker is on another node now, and a publisher stays where it is"
                raise PublisherLost.at(self._topic, partition, f"cannot be reached: {moved}")
        have_ended = self._answers("go_back", bool(self._lonely))
        if self._log:
            self._go_on_from(self._answers("place", _LOOK_S))
        else:
            self._generation = Generation(self._generation.number + 1)
            are_over = [ended or number in self._over for number, ended in enumerate(have_ended)]
            if len(set(are_over)) > 1:
                partly = "has ended, or has not, unlike other partitions, so its job cannot go back to a snapshot"
                raise DeliveryError.at(self._topic, are_over.index(not are_over[0]), partly)
            self._watch_anew()
        for handle in self.handles:
            if isinstance(handle, RayConnection):
                handle.generation = self._generation

    def _answers(self, method: str, *arguments: Any) -> list[Any]:
        """Call every publisher and return the answers; one that is being started again is waited for."""
        deadline_s = monotonic() + _GO_BACK_S
        while True:
            answers = self._ask(method, *arguments, within_s=_LOOK_S, give_up=False)
            missing = [partition for partition, answer in enumerate(answers) if answer is None]
            if not missing:
                return answers
            if monotonic() >= deadline_s:
                raise PublisherLost.at(self._topic, missing[0], "is dead, or does not answer")
            sleep(_AGAIN_S)

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
        return [answer or {} for answer in self._ask("statistics", within_s=0.0, give_up=False)]

    def finish(self, error: str | None, timeout: float, *, on_purpose: bool = False) -> None:
        """End the topic, let its subscribers fetch the last messages, and stop the publishers."""
        import ray

        with self._lock:
            if self._is_finished:
                return
            self._is_finished = True
            self._end_reason = error
        if left(self._joined):
            return  # the publishers have died with it, or with this process's part in it
        deadline_s = monotonic() + timeout
        try:
            error = self._end_reason = self._recognition.reason(timeout) if error is None else error
            self._entry.retract(error)
            self._end(error, deadline_s, on_purpose=on_purpose)
            are_read = self._ask("drained", 0.0, within_s=0.0)
        except BaseException:
            self._kill()
            raise
        # In total order, readers of one log need the silence of the others.
        stay = {False, True} if self._log and False in are_read else {False}
        late = [partition for partition, is_read in enumerate(are_read) if is_read in stay]
        done = [partition for partition, is_read in enumerate(are_read) if is_read not in stay]
        if self._log:
            self._ask("close", within_s=_CLOSE_S, of=done)  # what was acknowledged becomes durable
        for partition in done:
            ray.kill(self._publishers[partition], no_restart=True)
        if late:
            retire(self._log, [self._publishers[partition] for partition in late])

    def _end(self, error: str | None, deadline_s: float, *, on_purpose: bool) -> None:
        reason = error
        if reason is None:
            # The last call of a worker may still be on its way when the job is seen to be complete.
            grace_s = min(_END_GRACE_S, max(0.0, deadline_s - monotonic()))
            reason = None if all(self._ask("ended", grace_s, within_s=grace_s)) else STOPPED_EARLY
            self._end_reason = reason
            # A partition has ended, too, if its log cannot be written any more.
            if reason is None and self._log:
                self._is_durable = set(self._ask("problem", within_s=0.0, give_up=False)) == {""}
        remaining_s = max(0.0, deadline_s - monotonic())
        if reason is not None:
            remaining_s = min(remaining_s, _FAILURE_GRACE_S)
            self._ask("fail", reason, on_purpose, within_s=_REPLY_MARGIN_S)
        if not all(self._ask("drained", remaining_s, process_id(), within_s=remaining_s)):
            _LOG.warning("topic %r: some subscribers may not have fetched its last messages", self._topic)

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
        return [answer_of(call) if call in done else None for call in calls.values()]

    def _kill(self) -> None:
        import ray

        for publisher in self._publishers:
            ray.kill(publisher, no_restart=True)


def _start_publishers(publication: Publication, host: AttachmentHost) -> list[Any]:
    """Start an actor for each partition; return their handles.

    Ray starts an actor with a log again when it has died, and only where its log is; also for jobs with snapshots.
    """
    starts_again = publication.log is not None or host.keeps_snapshots
    options = {"num_cpus": 0, "max_restarts": -1 if starts_again else 0, "max_task_retries": 0}
    actor = actor_class(PublisherActor)
    nodes = host.nodes[: publication.partitions(host)]
    return [
        actor.options(**options, scheduling_strategy=_only_on(node)).remote(
            publication.topic, number, _maker(publication, number, len(nodes), node, host.keeps_snapshots)
        )
        for number, node in enumerate(nodes)
    ]


def _maker(topic: Publication, number: int, partitions: int, node: str, is_remembered: bool) -> MakePartition:
    """Return what makes a partition."""
    log = topic.log
    if log is None:
        name = f"{topic.topic!r}[{number}]"
        live = partial(LivePartition, name, topic.domain, topic.capacity_bytes, topic.awaited, node=node)
        return partial(live, is_remembered=is_remembered)
    identity = identity_of(topic.topic, number, partitions, topic.domain)
    place = log.of_partition(topic.topic, number)
    kept_s = log.retention_s
    return partial(DurablePartition, place, identity, topic.domain, node, topic.awaited, retention_s=kept_s)


def _only_on(node: str) -> Any:
    """Return how to say that: the node of a worker, without which there is no job either.

    With soft=True Ray takes another node at times, and the publisher is lost with that.
    """
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    return NodeAffinitySchedulingStrategy(node, soft=False)
