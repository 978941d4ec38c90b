"""A program whose cluster is killed from outside: ``python -m tests.ray.lost_cluster_program WHAT``.

It connects to the cluster that RAY_ADDRESS names. WHAT is ``drive`` (a job that publishes a topic), ``feed`` (that job,
from another process), ``read`` (its topic) or ``go on`` (read it, and read it again when the cluster is back), ``poll``
(a job, and another thread asks for topics again and again), or ``leave`` (a job is left behind by `ray.shutdown`). It
says ``running`` once it has done so for a while.
"""

import itertools
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import ray

import tidewheel as tw
from tests.ray.driver_program import say
from tests.waiting import eventually

TOPIC = "of a cluster that is lost"
_EPOCHS = 3
_DEADLINE_S = 60.0


class Box:
    """Holds bytes for other processes; an actor."""

    def __init__(self) -> None:
        self._kept = b""

    def put(self, kept: bytes) -> None:
        """Hold some bytes."""
        self._kept = kept

    def take(self) -> bytes:
        """Return what is held."""
        return self._kept


def drive() -> None:
    """Run a job, hand one of its inputs to whoever opens the box, and feed the other."""
    flow = tw.Dataflow("lost")
    flow.input("numbers").publish(TOPIC)
    flow.input("fed").probe("fed")
    with tw.run(flow) as job:
        box: Any = ray.remote(num_cpus=0)(Box).options(name="box", namespace="tidewheel").remote()
        ray.get(box.put.remote(ray.cloudpickle.dumps(job.input("fed"))))
        send_on(job.input("numbers"))


def feed() -> None:
    """Take the input out of the box, and feed it."""
    kept: list[Any] = []

    def is_there() -> bool:
        with suppress(ValueError):  # there is no such actor yet
            kept.append(ray.get(ray.get_actor("box", namespace="tidewheel").take.remote()))
        return any(kept)

    tw.topics()  # connects to the cluster
    assert eventually(is_there, _DEADLINE_S)
    loads: Any = ray.cloudpickle.loads
    send_on(loads(kept[-1]))


def send_on(numbers: Any) -> None:
    """Send epochs without end."""
    pause = threading.Event()
    for epoch in itertools.count():
        numbers.send([epoch])
        numbers.advance_to(epoch + 1)
        pause.wait(0.05)
        if epoch == _EPOCHS:
            say("running")


def read(times: int = 1) -> None:
    """Read epochs without end; begin again, until that has happened so often."""
    for left in range(times, 0, -1):
        try:
            for seen, _ in enumerate(tw.subscribe(TOPIC, timeout_s=_DEADLINE_S).epochs()):
                if seen == _EPOCHS:
                    say("running")
                    if times > left:
                        return
        except tw.DeliveryError:
            if left == 1:
                raise


def go_on() -> None:
    """Read until the cluster is lost, and again when it is back."""
    read(2)


def poll() -> None:
    """Wait for a job, while another thread finds out first that the cluster is lost."""
    flow = tw.Dataflow("polled")
    flow.input("numbers").publish("polled")
    job = tw.run(flow, workers=1)

    def ask() -> None:
        pause = threading.Event()
        while not pause.wait(0.1):
            with suppress(tw.TidewheelError):
                tw.topics()

    threading.Thread(target=ask, daemon=True).start()
    say("running")
    job.wait(_DEADLINE_S)


def leave() -> None:
    """Leave the cluster under a job with readers, join it again, and end the job and them while another one runs."""

    def described(name: str, log: str) -> tw.Dataflow:
        flow = tw.Dataflow(name)
        numbers = flow.input("numbers")
        numbers.publish(f"{name} live")
        numbers.publish(f"{name} kept", log=tw.Log(log))
        return flow

    with tempfile.TemporaryDirectory() as log:
        first = tw.run(described("first", log), workers=1)
        readers = [tw.subscribe("first live"), tw.subscribe("first kept", durable=tw.Durable("reader"))]
        ray.shutdown()
        with suppress(tw.JobError):
            first.wait(_DEADLINE_S)
        say(repr(first))
        with tw.run(described("second", log), workers=1) as second, tw.subscribe("second live") as subscription:
            for reader in readers:
                reader.close()
            first.stop()
            with second.input("numbers") as numbers:
                numbers.send([1])
            assert next(subscription.epochs(timeout_s=_DEADLINE_S)).records == [1]
    say("running")


def main() -> None:
    """Do what the command line says."""
    programs: dict[str, Callable[[], None]] = {
        "drive": drive,
        "feed": feed,
        "read": read,
        "go on": go_on,
        "poll": poll,
        "leave": leave,
    }
    programs[sys.argv[1]]()


if __name__ == "__main__":
    main()
