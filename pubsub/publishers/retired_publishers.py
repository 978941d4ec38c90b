"""The retired publishers of this process, which wait for the last readers of a topic that has ended.

Retired publishers keep the topic's log open. If another job continues that log, they end, and their readers continue
with that job.
"""

import threading
from collections.abc import Callable, Sequence
from typing import Any, Final

from tidewheel.host.ray_cluster import Membership, membership, process_id
from tidewheel.pubsub.publishers.live_delivery import LEASE_S

TAKEN_OVER: Final = (
    "the topic has ended, and another job goes on with its log: subscribe by the same name to go on there"
)

_LOCK = threading.Lock()
_RETIRED: dict[tuple[Membership, str], list[Any]] = {}


def retire(log: str, publishers: Sequence[Any], kill_silent: Callable[[], None] | None = None) -> None:
    """Let publishers end once all their readers have received everything, or once another job needs their log.

    Publishers with a log end together; ``log`` is their open log, empty if they have none. ``kill_silent`` ends
    publishers that do not answer. It is called after one lease, since a publisher may be restarting until then.
    """
    process, joined = process_id(), membership()
    with _LOCK:
        for key in [key for key in _RETIRED if key[0] != joined]:
            del _RETIRED[key]  # these actors are of a cluster that this process has left
        if log:
            _RETIRED[joined, log] = list(publishers)
    for publisher in publishers:
        # For subscriptions of this process: unread messages wait for them, and then the actor ends. Ray repeats the
        # call if it restarts the actor; otherwise the new actor would stay forever.
        others = publishers if log else ()
        publisher.retire.options(num_returns=0, max_task_retries=-1).remote(process, others)
    if kill_silent is not None:
        timer = threading.Timer(LEASE_S, lambda: joined == membership() and kill_silent())
        timer.daemon = True
        timer.start()


def take_over(log: str) -> None:
    """End the retired publishers that have a log open, if there are any, without waiting."""
    with _LOCK:
        publishers = _RETIRED.pop((membership(), log), [])
    for publisher in publishers:
        publisher.fail.options(num_returns=0).remote(TAKEN_OVER)
