"""The recovery of a tree of relays from three faults, for `topics/fanout.py`: who notices, for how long, and the nacks.

Messages are published at a steady pace. Two seconds later a link breaks, a relay is stopped, or the publisher is
killed. Every subscriber has to receive every message once, in order. A subscriber is below the fault if its messages
come over the broken part, and beside it otherwise.

Source: the evaluation of Gryphon's protocol, which shows "localized effects, no nack explosions".
"""

import os
import signal
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NamedTuple

from benchmarks.contestants.fanout_subscribers import Arrivals
from benchmarks.measuring.measurement import Report
from benchmarks.measuring.pubsub_traffic import wait
from benchmarks.parts.fanout_tree import UP, UPPER, TopicTree, inside, pid_of
from tidewheel.pubsub.subscribers.parents import ParentGone

BEFORE_S = 2.0
LINK_DOWN_S = 3.0
STOPPED_S = 14.0
"""The lower relays leave a relay that is stopped after 5 s, and go to another one 5 s later."""
AFTER_S = 8.0
LATE = 2.0
"""A message is late if its median latency is so many times the longest one before the fault."""
CALM_S = 2.0
"""The effects of a fault are over after so many seconds without a late message."""


class Fault(NamedTuple):
    """Something that breaks.

    Attributes:
        name: of the fault.
        down_s: for how long it lasts, in seconds.
        strike: breaks it as its block begins, and mends it in the end.
        below: the lower relays below it, by number.
    """

    name: str
    down_s: float
    strike: Callable[[TopicTree], AbstractContextManager[None]]
    below: tuple[int, ...]


class Moment(NamedTuple):
    """One message at some subscribers.

    Attributes:
        at_s: when it was sent, in seconds after the fault.
        middle_ms: the median of its latencies, in milliseconds.
        longest_ms: the longest of them.
    """

    at_s: float
    middle_ms: float
    longest_ms: float


class Recovery(NamedTuple):
    """The effects of a fault.

    Attributes:
        fault: the fault.
        nacks: how many each hop carried.
        moments: by "below" and "beside", the messages in order.
    """

    fault: Fault
    nacks: dict[str, int]
    moments: dict[str, list[Moment]]


@contextmanager
def broken_link(tree: TopicTree) -> Iterator[None]:
    """Close the connection of a lower relay to its parent, and let it find no other while the block lasts."""
    inside(tree.lower.actors[1], break_link, LINK_DOWN_S)
    yield


def break_link(relay: Any, for_s: float) -> None:
    """Close a relay's connection to its parent; searches fail for so many seconds."""
    (kept,) = relay._parents
    find, whole_s = kept.find, time.monotonic() + for_s

    def find_later(why_lost: str) -> Any:
        if time.monotonic() < whole_s:
            raise ParentGone("the link is broken")
        return find(why_lost)

    kept.find = find_later
    kept.drop()
    kept._look_now()


@contextmanager
def stopped_relay(tree: TopicTree) -> Iterator[None]:
    """Stop the process of an upper relay, and let it go on in the end."""
    pid = pid_of(tree.upper.actors[0])
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@contextmanager
def killed_publisher(tree: TopicTree) -> Iterator[None]:
    """Kill the process of the publisher; Ray starts it again."""
    os.kill(pid_of(tree.publisher), signal.SIGKILL)
    yield


FAULTS = (
    Fault("a link is broken for 3 s", LINK_DOWN_S, broken_link, (1,)),
    Fault("an upper relay is stopped", STOPPED_S, stopped_relay, (0, 2)),
    Fault("the publisher is killed", 0.0, killed_publisher, (0, 1, 2, 3)),
)
"""The lower relays 0 and 2 are below the upper relay 0."""


def measure_recovery(report: Report, tree: TopicTree, subscribers: int, rate: float) -> list[Recovery]:
    """Have the faults happen, one after the other; report the nacks, the longest latency, and how long it lasts."""
    assert UPPER == 2, "the lower relays take turns"
    tree.connect(subscribers)
    tree.turn(int(rate), rate)
    found = []
    for fault in FAULTS:
        recovery = recover(tree, fault, rate)
        found.append(recovery)
        nacks = {f"over {hop}": (float(recovery.nacks[hop]), "nacks") for hop in reversed(UP)}
        report.add_several(f"{subscribers} subscribers, {fault.name}", nacks)
        for where, moments in recovery.moments.items():
            longest_ms = max(moment.longest_ms for moment in moments if moment.at_s > -1 / rate)
            figures = {"the longest": (longest_ms, "ms"), "until it is as before": (late_for_s(moments), "s")}
            report.add_several(f"{subscribers} subscribers, {fault.name}, {where}", figures)
        most = recovery.nacks[UP[2]] / 10 + 10
        report.expect(f"{fault.name}: nacks at the publisher", recovery.nacks[UP[0]], most)
    return found


def recover(tree: TopicTree, fault: Fault, rate: float) -> Recovery:
    """Publish at a steady pace, have a fault happen, and go on until it is mended and for a while."""
    messages = int(rate * (BEFORE_S + fault.down_s + AFTER_S))
    before = tree.nacks()
    with ThreadPoolExecutor(1) as others:
        turn = others.submit(tree.turn, messages, rate)
        wait(BEFORE_S)
        struck_ns = time.perf_counter_ns()
        with fault.strike(tree):
            wait(fault.down_s)
        arrivals = turn.result()
    after = tree.nacks()
    # A publisher that was started again counts from 0.
    nacks = {hop: count - (before[hop] if count >= before[hop] else 0) for hop, count in after.items()}
    parents = [repr(tree.lower.actors[number]) for number in fault.below]
    return Recovery(fault, nacks, moments_of(arrivals, parents, struck_ns))


def moments_of(arrivals: Sequence[Arrivals], below: Sequence[str], struck_ns: int) -> dict[str, list[Moment]]:
    """Return the messages below a fault and beside it, each with the latencies to all subscribers there."""
    latencies: dict[str, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for one in arrivals:
        latencies["below" if one.parent in below else "beside"][one.sent_ns] += one.latencies_us
    return {
        where: [
            Moment((sent_ns - struck_ns) / 1e9, statistics.median(found) / 1e3, max(found) / 1e3)
            for sent_ns, found in sorted(messages.items())
        ]
        for where, messages in sorted(latencies.items())
    }


def late_for_s(moments: Sequence[Moment]) -> float:
    """Return how long messages are late after a fault, in seconds; 0 if no message is late.

    That is the time until the last late message arrives before `CALM_S` without one. Later ones have other causes.
    """
    usual_ms = max(moment.middle_ms for moment in moments if moment.at_s < -BEFORE_S / 2)
    late_s = 0.0
    for moment in moments:
        if moment.at_s > late_s + CALM_S:
            break
        if moment.at_s >= -CALM_S and moment.middle_ms > LATE * usual_ms:
            late_s = max(late_s, moment.at_s + moment.middle_ms / 1e3)
    return late_s
