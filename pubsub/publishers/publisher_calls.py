"""Starting the publisher actors of one publication in Ray, and calling all of them at once."""

import logging
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from tidewheel.host.log_lines import LogSettings
from tidewheel.host.ray_cluster import actor_class
from tidewheel.host.until import until
from tidewheel.progress import TimeDomain
from tidewheel.pubsub.errors import DeliveryError, PublisherLost
from tidewheel.pubsub.publishers.feeding import feeder_of
from tidewheel.pubsub.publishers.publisher_actor import MakeDelivery, PublisherActor
from tidewheel.pubsub.publishers.topic_log import TopicLog, identity_of

_LOG = logging.getLogger(__name__)

_LOOK_S = 1.0
_REPLY_MARGIN_S = 2.0
_GO_BACK_S = 30.0
_LOOK_AT_LOGS_S = 120.0

MakeDeliveries: TypeAlias = Callable[[int, int, str], MakeDelivery]
"""Returns a partition's `MakeDelivery`, given its number, the number of partitions and the id of its node."""


class PublisherCalls:
    """Calls all publishers of a topic; ``publishers`` has their handles, by partition."""

    def __init__(self, topic: str, publishers: Sequence[Any]) -> None:
        self.topic = topic
        self._publishers = publishers
        self._silent: set[int] = set()

    def call(self, partition: int, method: str, *arguments: Any, again: bool = False) -> Any:
        bound = getattr(self._publishers[partition], method)
        return (bound.options(max_task_retries=-1) if again else bound).remote(*arguments)

    def of_all(self, method: str, *arguments: Any) -> list[Any]:
        return [self.call(partition, method, *arguments) for partition in range(len(self._publishers))]

    def answers(self, method: str, *arguments: Any) -> list[Any]:
        """Call every publisher and return the answers; wait for a publisher that is being restarted.

        Raises:
            PublisherLost: a publisher does not answer in time, or answers with an error, for example because its disk
                is full.
        """
        answers: list[Any] = []

        def are_there() -> bool:
            answers[:] = self.ask(method, *arguments, within_s=_LOOK_S, give_up=False)
            return None not in answers

        def lost() -> PublisherLost:
            missing = answers.index(None)
            return PublisherLost.at(self.topic, missing, self._why_missing(missing, method, *arguments))

        until(are_there, within_s=_GO_BACK_S, error=lost)
        return answers

    def _why_missing(self, partition: int, method: str, *arguments: Any) -> str:
        import ray

        try:
            ray.get(self.call(partition, method, *arguments), timeout=_LOOK_S + _REPLY_MARGIN_S)
        except ray.exceptions.RayTaskError as error:
            return f"cannot go on: {error.cause}"
        except ray.exceptions.RayError as error:
            return f"is dead, or does not answer: {error}"
        return f"has answered only after {_GO_BACK_S:g} s"

    def ask(
        self,
        method: str,
        *arguments: Any,
        within_s: float,
        give_up: bool = True,
        again: bool = False,
        of: Sequence[int] | None = None,
    ) -> list[Any]:
        """Call every publisher; return the answers by partition, None for a publisher that is dead or does not answer.

        With ``give_up``, later calls do not wait for a publisher that hangs. With ``again``, this waits for publishers
        that are being restarted. With ``of``, it calls only these partitions.
        """
        import ray

        partitions = range(len(self._publishers)) if of is None else of
        calls = {partition: self.call(partition, method, *arguments, again=again) for partition in partitions}
        waiting = [call for partition, call in calls.items() if partition not in self._silent]
        done = ray.wait(waiting, num_returns=len(waiting), timeout=within_s + _REPLY_MARGIN_S)[0] if waiting else []
        if give_up:
            self._silent.update(partition for partition, call in calls.items() if call not in done)
        return [answer_of(call) if call in done else None for call in calls.values()]

    def kill(self, of: Sequence[int] | None = None) -> None:
        """Kill the processes of all publishers, or of some partitions; Ray does not restart them."""
        kill(self._publishers if of is None else [self._publishers[partition] for partition in of])

    def kill_silent(self) -> None:
        answers = self.ask("statistics", within_s=0.0, give_up=False)
        self.kill([partition for partition, answer in enumerate(answers) if answer is None])


def answer_of(call: Any) -> Any:
    """Return the answer of a publisher; None if it is dead or the call has failed."""
    import ray

    try:
        return ray.get(call)
    except ray.exceptions.RayError as error:
        _LOG.debug("a publisher did not answer: %s", error)
        return None


def start_publishers(
    topic: str,
    make: MakeDeliveries,
    nodes: Sequence[str],
    partitions: int,
    *,
    starts_again: bool,
    logged: Callable[[Sequence[Any]], Sequence[int | None]] | None = None,
    logs: LogSettings | None = None,
) -> list[Any]:
    """Start an actor for each partition, on the node of the worker that feeds it; return their handles.

    ``nodes`` has the ids of the workers' nodes. ``logged`` is `logged_partitions` for a topic with logs, which keeps an
    earlier job's number of partitions. With ``starts_again``, Ray restarts a dead actor, but only on its node.

    Raises:
        DeliveryError: the log of a partition is not on its node.
    """
    options = {"num_cpus": 0, "max_restarts": -1 if starts_again else 0, "max_task_retries": 0}
    actor = actor_class(PublisherActor)

    def started(count: int) -> list[Any]:
        places = [nodes[feeder_of(number, len(nodes))] for number in range(count)]
        on = [actor.options(**options, scheduling_strategy=_only_on(node)) for node in places]
        return [on[number].remote(topic, number, make(number, count, node), logs) for number, node in enumerate(places)]

    publishers = started(partitions)
    stay = None if logged is None else logged(publishers)[0]
    if logged is None or not stay or stay == partitions:  # if the log cannot be read, its opening reports the reason
        return publishers
    kill(publishers)
    publishers = started(stay)
    found = logged(publishers)
    if 0 in found:
        kill(publishers)
        number = found.index(0)
        refusal = (
            f"has its log on another node than worker {feeder_of(number, len(nodes))}, which would feed it. Run as "
            "many workers as before, or keep logs in an object store"
        )
        raise DeliveryError.at(topic, number, refusal)
    return publishers


def logged_partitions(log: TopicLog, topic: str, domain: TimeDomain, publishers: Sequence[Any]) -> list[int | None]:
    """Return the number of partitions in each publisher's log: 0 without a log, None if the log cannot be read."""
    import ray

    calls = []
    for number, publisher in enumerate(publishers):
        identity = identity_of(topic, number, len(publishers), domain)
        calls.append(publisher.logged_partitions.remote(log.of_partition(topic, number), identity))
    done = ray.wait(calls, num_returns=len(calls), timeout=_LOOK_AT_LOGS_S)[0]
    return [answer_of(call) if call in done else None for call in calls]


def kill(publishers: Sequence[Any]) -> None:
    """Kill the processes of publishers; Ray does not restart them."""
    import ray

    for publisher in publishers:
        ray.kill(publisher, no_restart=True)


def _only_on(node: str) -> Any:
    """Return the option that keeps an actor on one node.

    With soft=True Ray might choose another node and lose the publisher.
    """
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    return NodeAffinitySchedulingStrategy(node, soft=False)
