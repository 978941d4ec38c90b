"""The actors that publish a topic, as other processes see them: the news of their death, and their end.

Publishers of this process that are retired wait for the last readers of a topic that is over, with its log in their
hands. A job that goes on with that log has precedence: those readers are told to go on with it.
"""

import asyncio
import logging
import threading
from collections.abc import Sequence
from typing import Any, Final

from tidewheel.pubsub.catalog.catalog import TopicInfo
from tidewheel.transport.ray_cluster import process_id

_LOG = logging.getLogger(__name__)

TAKEN_OVER: Final = (
    "the topic has ended, and another job goes on with its log: subscribe by the same name to go on there"
)

_PING_TIMEOUT_S = 5.0
_WATCH_S = 600.0
_LOOK_AGAIN_S = 1.0

_LOCK = threading.Lock()
_RETIRED: dict[tuple[str, str], list[Any]] = {}


async def publishers_live(info: TopicInfo) -> bool:
    """Ping all publishers of a topic; tell whether none of them is dead. One that is only slow to answer is not."""
    answers = await asyncio.gather(*(_is_dead(publisher) for publisher in info.partitions))
    return not any(answers)


async def _is_dead(publisher: Any) -> bool:
    from ray.exceptions import ActorUnavailableError, RayActorError

    try:
        async with asyncio.timeout(_PING_TIMEOUT_S):
            await publisher.ping.remote()
    except (TimeoutError, ActorUnavailableError):
        return False
    except RayActorError:
        return True
    return False


async def publisher_death(info: TopicInfo) -> str:
    """Wait until a publisher of a topic is dead; return the reason."""
    watches = [asyncio.create_task(_death(partition, publisher)) for partition, publisher in enumerate(info.partitions)]
    try:
        done, _ = await asyncio.wait(watches, return_when=asyncio.FIRST_COMPLETED)
        return done.pop().result()
    finally:
        for watch in watches:
            watch.cancel()


async def _death(partition: int, publisher: Any) -> str:
    """Have a call waiting at a publisher for as long as it lives: it fails at once when that dies."""
    from ray.exceptions import ActorUnavailableError, RayActorError, RayError

    while True:
        try:
            has_ended = await publisher.ended.remote(_WATCH_S)
        except ActorUnavailableError:
            has_ended = True  # it is out of reach, perhaps for a moment
        except RayActorError as error:
            return _reason(partition, str(error))
        except RayError as error:
            _LOG.warning("the publisher of partition %s does not answer as it should: %s", partition, error)
            has_ended = True
        if has_ended:  # such a call would be answered at once
            await asyncio.sleep(_LOOK_AGAIN_S)


def _reason(partition: int, error: str) -> str:
    """Return in short what Ray says of the death of an actor."""
    if "its owner has died" in error:
        return "the driver of its job is dead"
    # The last line has the cause, and advice after it.
    cause = error.strip().rpartition("\n")[2].partition(". ")[0]
    return f"the publisher of partition {partition} is dead: {cause}"


def retire(log: str, publishers: Sequence[Any]) -> None:
    """Let publishers end once all their readers have everything, or another job wants their log.

    Args:
        log: what they have open, for all partitions of the topic; empty if that is nothing.
        publishers: the handles of their actors.
    """
    process = process_id()
    with _LOCK:
        for key in [key for key in _RETIRED if key[0] != process]:
            del _RETIRED[key]  # of a cluster that this process has left
        if log:
            _RETIRED[process, log] = list(publishers)
    for publisher in publishers:
        # Subscriptions of this very process: what they have not read waits for them, and then the actor goes.
        publisher.retire.options(num_returns=0).remote(process)


def take_over(log: str) -> None:
    """Have those end that still hold a log, if there are any; does not wait."""
    with _LOCK:
        publishers = _RETIRED.pop((process_id(), log), [])
    for publisher in publishers:
        publisher.fail.options(num_returns=0).remote(TAKEN_OVER)
