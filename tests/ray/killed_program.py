"""A program that is killed at any moment and started again: ``python -m tests.ray.killed_program FOLDER FEEDER``.

It connects to the cluster that RAY_ADDRESS names. It feeds one input of the dataflow of `recovered_flow`, and an actor
by the name FEEDER feeds the other one. The results are published as topics with logs, and captured. Snapshots and logs
are in FOLDER. The program closes its input when there is a file "enough" in it, and writes there what was captured at
last. It says ``rewound`` each time that the job goes back.
"""

import pickle
import sys
import threading
from functools import partial
from pathlib import Path
from typing import Any

import ray

import tidewheel as tw
from tests.ray.recovered_flow import EPOCHS, describe, results, send_all

DEADLINE_S = 300.0
INPUTS = ("numbers", "more")
TOPICS = {"found": ("sums", "counts", "visits", "sessions", "late", "firsts"), "ranked": ("ranks",)}
"""The captures that each topic has."""


class Feeder:
    """Feeds the input "more" of the job of which it receives a handle, in an actor that outlives the driver."""

    def feed(self, handles: list[tw.types.InputHandle]) -> None:
        """Send what comes after the position of the handle, which is in a list as Ray unpacks no lists."""
        [handle] = handles
        send_all(handle)


def named(name: str, record: Any) -> tuple[str, Any]:
    return name, record


def publish(folder: str, feeder: str, found: dict[str, tw.Stream[Any]]) -> None:
    """Publish each stream, with its name; timing decides which worker publishes a record."""
    for topic, names in TOPICS.items():
        stream, *others = (found[name].map(partial(named, name)) for name in names)
        published = stream.concat(*others).rebalance() if others else stream.rebalance()
        published.publish(f"{topic} by {feeder}", log=tw.Log(Path(folder, topic)), wait_for=1)


def feed(job: tw.types.Job, feeder: Any, enough: Path) -> None:
    """Send all epochs, again where the job goes back."""

    def at(epoch: int) -> None:
        while epoch == EPOCHS and not enough.exists():
            job.input("numbers").advance_to(EPOCHS - 1)  # which it is at, unless the job has gone back
            threading.Event().wait(0.01)

    while True:
        try:
            more = job.input("more")
            calls = [] if more.is_closed else [feeder.feed.remote([more])]
            send_all(job.input("numbers"), at)
            ray.get(calls, timeout=DEADLINE_S)
            job.wait(DEADLINE_S)
        except tw.JobRolledBack:
            print("rewound", flush=True)  # noqa: T201 - the test reads that
        else:
            return


def main(folder: str, feeder: str) -> None:
    flow = describe(*INPUTS, also=partial(publish, folder, feeder))
    snapshots = tw.Snapshots(Path(folder, "snapshots"), every_s=0.3, restarts=6)
    config = tw.RuntimeConfig(epochs_ahead=10)
    with tw.run(flow, workers=2, snapshots=snapshots, config=config) as job:
        feed(job, ray.get_actor(feeder, namespace="tidewheel"), Path(folder, "enough"))
        Path(folder, "captured").write_bytes(pickle.dumps(results(job)))


if __name__ == "__main__":
    main(*sys.argv[1:])
