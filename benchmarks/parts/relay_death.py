"""For how long subscribers notice that the relay which they are behind was killed.

A subscriber in the driver, behind a relay, reads small records at a steady pace; the relay's process gets a SIGKILL.
What counts is the time from there until the first record comes that was sent after it. Everything has to come once, in
order.
"""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import tidewheel as tw
from benchmarks.contestants.exactly_once_peers import RELAYED
from benchmarks.contestants.peer_roles import DEADLINE_S
from benchmarks.contestants.topic_job import give
from benchmarks.measuring.job_processes import actors_beside
from benchmarks.measuring.measurement import Report
from benchmarks.measuring.pubsub_traffic import OVER, Order, wait

A_SECOND = 200
_RECORDS = 200
_KILLED_AT = 60
_LOOK_S = 0.005
_CONNECTED_WITHIN_S = 1.0


class Arrival(NamedTuple):
    """A record that has come: its number, and when it was sent and came."""

    number: int
    sent_ns: int
    came_ns: int


def measure_relay_deaths(report: Report, job: tw.types.Job, deaths: int) -> None:
    """Report how long it took to go on, and how long records take behind a relay that lives."""
    with tw.relay(RELAYED) as relays:
        rounds = [kill_one(job, relays) for _ in range(deaths)]
    usual = [(arrival.came_ns - arrival.sent_ns) / 1e3 for arrivals, _ in rounds for arrival in arrivals[:_KILLED_AT]]
    report.add(f"behind a relay, {A_SECOND} messages/s: one message", usual, "us")
    report.add("from a relay's death to the next message", [time_to_go_on(*found) / 1e6 for found in rounds], "ms")


def kill_one(job: tw.types.Job, relays: tw.types.RelayHandle) -> tuple[list[Arrival], int]:
    """Read a turn, in which the relay is killed; return what came, and when that was."""
    arrivals: list[Arrival] = []
    with behind(relays) as subscription:
        reader = threading.Thread(target=read, args=(subscription, arrivals), daemon=True)
        reader.start()
        give(job, RELAYED, Order("stamps", _RECORDS, A_SECOND))
        if not is_soon(lambda: len(arrivals) >= _KILLED_AT, DEADLINE_S):
            raise TimeoutError(f"{len(arrivals)} of {_KILLED_AT} records have come in {DEADLINE_S} s")
        (relay,) = actors_beside(job, "RelayActor")
        killed_ns = time.perf_counter_ns()
        os.kill(relay.pid, signal.SIGKILL)
        reader.join(DEADLINE_S)
    if [arrival.number for arrival in arrivals] != list(range(_RECORDS)):
        raise RuntimeError(f"of {_RECORDS} records these came: {[arrival.number for arrival in arrivals]}")
    return arrivals, killed_ns


@contextmanager
def behind(relays: tw.types.RelayHandle) -> Iterator[tw.types.Subscription]:
    """Subscribe, once there is a relay to subscribe to: one that was killed is started again."""
    deadline_s = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline_s:
        with tw.subscribe(RELAYED) as subscription:
            if is_soon(lambda: any(one.children for one in relays.statistics()), _CONNECTED_WITHIN_S):
                yield subscription
                return
    raise TimeoutError(f"a subscriber is not behind a relay after {DEADLINE_S} s")


def read(subscription: tw.types.Subscription, arrivals: list[Arrival]) -> None:
    """Note what comes, up to the end of a turn."""
    for event in subscription:
        if isinstance(event, tw.types.Batch):
            ((number, sent_ns, _),) = event.data
            if number == OVER:
                return
            arrivals.append(Arrival(number, sent_ns, time.perf_counter_ns()))


def time_to_go_on(arrivals: list[Arrival], killed_ns: int) -> int:
    """Return how long after the death the first came that was sent after it, in nanoseconds."""
    return next(arrival.came_ns for arrival in arrivals if arrival.sent_ns > killed_ns) - killed_ns


def is_soon(is_so: Callable[[], bool], within_s: float) -> bool:
    """Look again and again; tell whether it is so in time."""
    deadline_s = time.monotonic() + within_s
    while not is_so():
        if time.monotonic() > deadline_s:
            return False
        wait(_LOOK_S)
    return True
