"""The memory that a subscriber costs which lags behind: its own, its relay's, and the publisher's.

The subscriber's process, behind a relay, is stopped by a SIGSTOP while batches of 64 KB are published, and goes on when
all of them are in the log. What each process has in memory is looked at until the subscriber has had everything.
"""

import os
import signal
from typing import Any

import psutil

import tidewheel as tw
from benchmarks.contestants.exactly_once_peers import RELAYED
from benchmarks.contestants.peer_roles import DEADLINE_S
from benchmarks.contestants.topic_contestants import receipts_of, subscriber_commands
from benchmarks.contestants.topic_job import give
from benchmarks.measuring.job_processes import growth
from benchmarks.measuring.measurement import Report
from benchmarks.measuring.peer_processes import PeerProcesses
from benchmarks.measuring.pubsub_traffic import Order, encoded_bytes
from benchmarks.parts.relay_death import is_soon
from tidewheel.pubsub.catalog.catalog_actor import ask_catalog

BATCH_BYTES = 64 * 1024
MIB = 1 << 20
MOST_MIB = 64
"""By how much any of the processes may grow, however far the subscriber lags: several bounds of 4 to 32 MiB."""

_WARM_BATCHES = 200


def measure_lag(report: Report, job: tw.types.Job, batches: int) -> None:
    """Report by how much the processes grow where a subscriber lags behind by so many batches."""
    import ray

    order = Order("sized tables", batches, size=BATCH_BYTES)
    address = ray.get_runtime_context().gcs_address
    commands = subscriber_commands("contestants.exactly_once_peers", RELAYED, address, 1)
    with tw.relay(RELAYED) as relays, PeerProcesses(commands) as peers:
        if not is_soon(lambda: any(one.children for one in relays.statistics()), DEADLINE_S):
            raise TimeoutError("the subscriber is not behind the relay")
        give(job, RELAYED, order._replace(messages=_WARM_BATCHES))
        peers.ask(RELAYED)
        (pid,) = peers.pids
        (publisher,) = ask_catalog("lookup", RELAYED, DEADLINE_S).partitions
        processes = {"the publisher": process_of(publisher), "the relay": process_of(*relays.actors)}
        processes["the subscriber"] = psutil.Process(pid)
        with growth(processes) as grown:
            lag(job, order, pid)
            (receipt,) = receipts_of(peers.ask(RELAYED))
    if receipt.messages != batches:
        raise RuntimeError(f"the subscriber has had {receipt.messages:,} of {batches:,} batches")
    what = f"{batches * encoded_bytes(order) / 1e6:,.0f} MB behind"
    for name, growth_bytes in grown.items():
        report.add(f"{what}: growth of {name}", [growth_bytes / MIB], "MiB")
        report.expect(f"{what}: growth of {name}, MiB", growth_bytes / MIB, MOST_MIB)


def lag(job: tw.types.Job, order: Order, pid: int) -> None:
    """Have everything published while a process is stopped."""
    before = published_bytes(job)
    os.kill(pid, signal.SIGSTOP)
    try:
        give(job, RELAYED, order)
        size = order.messages * encoded_bytes(order)
        if not is_soon(lambda: published_bytes(job) >= before + size, DEADLINE_S):
            raise TimeoutError(f"{published_bytes(job) - before:,} of {size:,} bytes are in the log")
    finally:
        os.kill(pid, signal.SIGCONT)


def published_bytes(job: tw.types.Job) -> int:
    """Return how many bytes are in the log, or on their way."""
    (said,) = job.statistics().topics[RELAYED]
    return int(said["bytes"])


def process_of(actor: Any) -> psutil.Process:
    """Return the process that an actor is in."""
    import ray

    return psutil.Process(ray.get(actor.__ray_call__.remote(lambda _: os.getpid()), timeout=DEADLINE_S))
