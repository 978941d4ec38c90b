"""Publishers, relays and subscribers killed, or stopped for a while: everybody has every epoch once, in order.

Three runs by default; other tests kill one of each kind. For 30, or to repeat those of a run (both figures are in what
a failure says)::

    TIDEWHEEL_KILLS=30 TIDEWHEEL_KILLS_SEED=1234 python -m pytest tests/ray/topics/test_exactly_once_kills.py
"""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import tidewheel as tw
from tests.kit.seeds import seed_of
from tests.ray.topics.durable_program import lines
from tests.waiting import eventually

pytestmark = [pytest.mark.ray, pytest.mark.long]

SEED = seed_of("TIDEWHEEL_KILLS_SEED")
RUNS = int(os.environ.get("TIDEWHEEL_KILLS") or 3)
EPOCHS = 60
EVERY_S = 0.05
KILLS = 4
STOPPED_S = 8.0
"""A process is stopped for so long: its children take it for one that hangs."""
DEADLINE_S = 120.0
SUBSCRIBERS = {"billing": "publisher", "audit": "total", "copy": "total"}


class Reading:
    """A subscriber in a process of its own, which can be killed, and starts again."""

    def __init__(self, topic: str, name: str, order: str, folder: Path, address: str) -> None:
        self.path = folder / f"{name}.jsonl"
        self._command = [sys.executable, "-m", "tests.ray.topics.durable_program", topic, name, order, str(self.path)]
        self._environment = {**os.environ, "RAY_ADDRESS": address}
        self._process = self._start()

    def _start(self) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(self._command, env=self._environment)

    def kill(self) -> None:
        """Kill it, and start another one by the same name."""
        self._process.kill()
        self._process.wait(DEADLINE_S)
        self._process = self._start()

    def has_begun(self) -> bool:
        return self.path.exists() and self.path.stat().st_size > 0

    def result(self) -> list[Any]:
        """Wait for its end; return what it has written."""
        self._process.wait(DEADLINE_S)
        return lines(self.path)

    def close(self) -> None:
        self._process.kill()
        self._process.wait(DEADLINE_S)


def kill_actor(actor: Any) -> None:
    """Kill the process of an actor."""
    strike(actor, signal.SIGKILL)


def strike(actor: Any, how: signal.Signals) -> None:
    """Send a signal to the process of an actor; one that is just starting again is spared."""
    import ray

    try:
        pid = ray.get(actor.__ray_call__.remote(lambda _: os.getpid()), timeout=DEADLINE_S)
        os.kill(pid, how)
    except (ray.exceptions.RayError, ProcessLookupError):
        return
    if how is signal.SIGSTOP:
        threading.Timer(STOPPED_S, go_on, [pid]).start()


def go_on(pid: int) -> None:
    """Let a stopped process go on, if it is still there."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)


def victims(topic: str, relay: Any, readings: list[Reading]) -> dict[str, list[Callable[[], None]]]:
    """Return what can be struck, and how."""
    from tidewheel.pubsub.catalog.catalog_actor import ask_catalog

    publishers = ask_catalog("lookup", topic, DEADLINE_S).partitions
    return {
        **{
            f"{kind} {how.name}": [partial(strike, actor, how) for actor in actors]
            for kind, actors in (("publisher", publishers), ("relay", relay.actors))
            for how in (signal.SIGKILL, signal.SIGSTOP)
        },
        "subscriber": [reading.kill for reading in readings],
    }


def send(numbers: Any, random_numbers: random.Random) -> None:
    """Send the epochs, slowly enough that there is something to kill."""
    for epoch in range(EPOCHS):
        numbers.send([epoch * 1000 + n for n in range(random_numbers.randint(1, 50))])
        numbers.advance_to(epoch + 1)
        threading.Event().wait(EVERY_S * random_numbers.random())
    numbers.close()


@pytest.mark.parametrize("place", ["folder", pytest.param("s3", marks=pytest.mark.long)])
@pytest.mark.parametrize("run", range(RUNS))
def test_everybody_has_everything_once(
    run: int, place: str, tmp_path: Path, ray_cluster: str, request: pytest.FixtureRequest
) -> None:
    """Epochs in order for one subscriber, and the same sequence of batches for two others, whoever dies."""
    say = f"repeat with TIDEWHEEL_KILLS={RUNS} TIDEWHEEL_KILLS_SEED={SEED}, run {run}"
    choices = random.Random(f"{SEED} {run}")
    topic = f"killed-{run}-{place}"
    log = tmp_path if place == "folder" else request.getfixturevalue("bucket")
    flow = tw.Dataflow(topic)
    flow.input("numbers").rebalance().publish(topic, log=tw.Log(log))
    with ExitStack() as stack:
        job = stack.enter_context(tw.run(flow, workers=2))
        relay = stack.enter_context(tw.relay(topic))
        readings = []
        for name, order in SUBSCRIBERS.items():
            readings.append(Reading(topic, name, order, tmp_path, ray_cluster))
            stack.callback(readings[-1].close)
        feeder = threading.Thread(target=send, args=[job.input("numbers"), random.Random(f"{SEED} {run} sends")])
        feeder.start()
        stack.callback(feeder.join, DEADLINE_S)
        struck = []
        assert eventually(lambda: any(reading.has_begun() for reading in readings), DEADLINE_S), say
        for _ in range(KILLS):
            kind, kills = choices.choice(sorted(victims(topic, relay, readings).items()))
            struck.append(kind)
            choices.choice(kills)()
            threading.Event().wait(choices.random())
        began_s = time.monotonic()
        billing, audit, copy = [reading.result() for reading in readings]
        say = f"{say}: struck {struck}, read to the end within {time.monotonic() - began_s:.1f} s"
        job.wait(timeout_s=DEADLINE_S)

    expected: dict[int, list[int]] = {}
    sends = random.Random(f"{SEED} {run} sends")
    for epoch in range(EPOCHS):
        expected[epoch] = [epoch * 1000 + n for n in range(sends.randint(1, 50))]
        sends.random()
    assert billing == [*([epoch, found] for epoch, found in expected.items()), "end"], say
    assert audit[-1:] == copy[-1:] == ["end"], say
    assert audit == copy, say
    ticks = [number for _, number, _, _ in audit[:-1]]
    assert ticks == sorted(set(ticks)), say
    got: dict[int, list[int]] = {}
    for _, _, epoch, found in audit[:-1]:
        got[epoch] = sorted([*got.get(epoch, []), *found])
    assert got == expected, f"{say}: {json.dumps(audit)}"
