"""The catalog's checks whether publishers are alive."""

import asyncio
import logging
from typing import Any

from tidewheel.pubsub.catalog.catalog import TopicInfo

_LOG = logging.getLogger(__name__)

_PING_TIMEOUT_S = 5.0
_WATCH_S = 600.0
_LOOK_AGAIN_S = 1.0


async def publishers_live(info: TopicInfo) -> bool:
    """Ping all publishers of a topic; return False if one is dead. A slow publisher counts as alive."""
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
    from ray.exceptions import ActorUnavailableError, RayActorError, RayError

    while True:
        try:
            has_ended = await publisher.ended.remote(_WATCH_S)
        except ActorUnavailableError:
            has_ended = True  # the publisher is out of reach, perhaps for a moment
        except RayActorError as error:
            return _reason(partition, str(error))
        except RayError as error:
            _LOG.warning("the publisher of partition %s does not answer as it should: %s", partition, error)
            has_ended = True
        if has_ended:  # the next call would return at once
            await asyncio.sleep(_LOOK_AGAIN_S)


def _reason(partition: int, error: str) -> str:
    if "its owner has died" in error:
        return "the driver of its job is dead"
    # The last line has the cause, followed by advice.
    cause = error.strip().rpartition("\n")[2].partition(". ")[0]
    return f"the publisher of partition {partition} is dead: {cause}"
