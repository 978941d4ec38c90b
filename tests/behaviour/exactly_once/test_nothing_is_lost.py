"""Durable subscriptions, of a publisher that is killed, closed, out of room and trimmed, by readers that come and go.

Whatever comes in which order: a reader misses nothing but what was acknowledged by an earlier one, has each message
once and in order, and gets nothing again that was acknowledged by one which has left in peace. In the end the log is
empty. ``TIDEWHEEL_SUBSCRIPTION_RUNS`` says how many are tried, and a failure says which.
"""

import os
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.kit.exactly_once.partitions import Dying, Full, Partition
from tests.kit.exactly_once.subends import repeat_acks
from tidewheel.pubsub.exactly_once.subend import Subend
from tidewheel.pubsub.log.errors import LogError
from tidewheel.pubsub.messages.delivery_messages import Ack, KnowledgeMessage, Nack
from tidewheel.pubsub.messages.encoded_message import decode, encode, size_of
from tidewheel.pubsub.messages.wire import DataMessage, LowerFrontierUpdate

RUNS = int(os.environ.get("TIDEWHEEL_SUBSCRIPTION_RUNS", "60"))
MESSAGES = 40
IN_EPOCH = 3
NAMES = ("a", "b")
STEPS = 250
ROOM = 1 << 40


class Frail(Dying, Full):
    """A disk that may be full, and whose process may be killed in the middle of a call."""


class Life:
    """One reader.

    Attributes:
        had: the numbers of the messages that it has had.
        acknowledged: those that it has acknowledged.
        spared: what it should not get, as it was acknowledged by one that has left in peace.
        excused: what it need not get, as earlier ones have acknowledged that.
    """

    def __init__(self, partition: Partition, name: str, reader: str, excused: set[int], spared: set[int]) -> None:
        self.name, self.reader = name, reader
        self.had: list[int] = []
        self.acknowledged: set[int] = set()
        self.excused, self.spared = set(excused), set(spared)
        begun = partition.core.subscribe(name, reader, 0, durable=True)
        assert begun.lost_end == 0
        self.core = Subend(reader, {0: begun}, size_of, room_bytes=200)
        self._ticks: dict[int, int] = {}

    def read(self, partition: Partition) -> None:
        """Ask, and take what there is."""
        partition.core.join(self.reader)
        self.core.reconnected()
        for nack in self.core.ask(0.0):
            assert isinstance(nack, Nack)
            partition.core.nack(self.reader, nack)
        for child, message in partition.told:
            if child == self.reader and isinstance(message, KnowledgeMessage):
                self.core.receive(message, 0.0)
        partition.told.clear()
        for delivered in self.core.take():
            event = decode(delivered.message)
            number = int(bytes(event.payload)) if isinstance(event, DataMessage) else -1 - delivered.tick
            self._ticks[number] = delivered.tick
            if number >= 0:
                self._check(number)
                self.had.append(number)

    def _check(self, number: int) -> None:
        last = self.had[-1] if self.had else -1
        missed = set(range(last + 1, number)) - self.excused
        assert number > last, f"{self.reader} gets {number} after {last}"
        assert not missed, f"{self.reader} gets {number} after {last}, without {missed}"
        assert number not in self.spared, f"{self.reader} gets {number} again"

    def acknowledge(self, random: Random, share: float) -> None:
        """Acknowledge some of what it has had, in any order."""
        for number in random.sample(sorted(self._ticks), len(self._ticks)):
            if random.random() < share:
                self.core.acknowledge(0, self._ticks.pop(number))
                if number >= 0:
                    self.acknowledged.add(number)

    def say(self, partition: Partition) -> None:
        """Tell the publisher what is acknowledged."""
        repeat_acks(self.core)
        for ack in self.core.acks():
            assert isinstance(ack, Ack)
            partition.core.ack(self.reader, ack)


class World:
    """One publisher, its worker, and the readers of two durable subscriptions."""

    def __init__(self, directory: Path, random: Random) -> None:
        self._directory, self._random = directory, random
        self._files = Frail()
        self._lives: list[Life] = []
        self._current: dict[str, Life] = {}
        self._excused: dict[str, set[int]] = defaultdict(set)
        self._spared: dict[str, set[int]] = defaultdict(set)
        self._count = 0
        self._sent = 0
        self._worker = self._steps()
        self.partition = self._open()
        assert all(self._life(name) for name in NAMES)

    def _open(self) -> Partition:
        while True:
            self._files = Frail()
            try:
                partition = Partition(self._directory, segment_bytes=400, cache_bytes=200, files=self._files)
            except LogError:
                continue
            return partition

    def _steps(self) -> list[Any]:
        """Return what a worker sends from its start on."""
        steps: list[Any] = []
        for number in range(MESSAGES):
            time, index = divmod(number, IN_EPOCH)
            if number and not index:
                steps.append(LowerFrontierUpdate([(time - 1, -1), (time, 1)]))
            steps.append(encode(DataMessage(time, str(number).encode(), "pickle", 1), index))
        return [step if not isinstance(step, LowerFrontierUpdate) else encode(step) for step in steps]

    # What may happen

    def send(self) -> None:
        for _ in range(self._random.randint(1, 4)):
            if self._sent < len(self._worker) and self.partition.core.has_room:
                self.partition.core.feed([self._worker[self._sent]])
                self._sent += 1

    def settle(self) -> None:
        core = self.partition.core
        self.partition.turn_until(lambda: core.writer.is_durable or core.error is not None or core.writer.is_stuck)

    def look(self) -> None:
        self.partition.core.look(forgets=self._random.random() < 0.8)
        self.partition.core.trim()
        self.partition.core.resume()
        self.partition.turn()

    def read(self) -> None:
        life = self._life(self._random.choice(NAMES))
        if life is None:
            return
        life.read(self.partition)
        life.acknowledge(self._random, self._random.choice([0.0, 0.3, 1.0]))

    def say(self) -> None:
        """Also of one from which another has taken over."""
        for life in self._random.sample(self._lives, min(2, len(self._lives))):
            life.say(self.partition)

    def _life(self, name: str) -> Life | None:
        """Return the present life of a subscription; if there is none, one begins, unless it cannot be noted."""
        if name not in self._current:
            self._count += 1
            reader = f"{name}/{self._count}"
            life = Life(self.partition, name, reader, self._excused[name], self._spared[name])
            self.settle()
            if self.partition.core.subscriptions.is_logged(name):
                self._lives.append(life)
                self._current[name] = life
        return self._current.get(name)

    def take_over(self) -> None:
        name = self._random.choice(NAMES)
        life = self._current.pop(name, None)
        if life is not None:
            self._excused[name] |= life.acknowledged
        self._life(name)

    def leave(self) -> None:
        """Leave in peace, if that can be noted."""
        life = self._life(self._random.choice(NAMES))
        if life is None:
            return
        del self._current[life.name]
        self._excused[life.name] |= life.acknowledged
        self.partition.core.unsubscribe(life.reader, life.core.acknowledged(0).ranges())
        self.settle()
        if self.partition.core.subscriptions.is_logged(life.name):
            self._spared[life.name] |= life.acknowledged

    def fill(self) -> None:
        self._files.room = self._random.choice([0, 50, 300])

    def make_room(self) -> None:
        self._files.room = ROOM

    def kill_soon(self) -> None:
        self._files.calls_left = self._random.randint(0, 6)

    def restart(self) -> None:
        """End the publisher, in peace or not; the worker begins again."""
        with suppress(LogError):
            self.partition.core.close()
        self.partition = self._open()
        self._sent = 0
        self.partition.core.begin()

    def step(self) -> None:
        """Have something happen."""
        doings: list[Callable[[], None]] = [self.send, self.settle, self.look, self.read, self.say]
        rare = [self.take_over, self.leave, self.fill, self.make_room, self.make_room, self.kill_soon, self.restart]
        try:
            self._random.choice(doings if self._random.random() < 0.9 else rare)()
            if self.partition.core.error is not None:
                self.restart()
        except LogError:
            self.restart()

    def finish(self) -> None:
        """Have all be well, and everything read."""
        self.restart()
        while self._sent < len(self._worker):
            self.send()
            self.settle()
        for _ in range(MESSAGES):
            for name in NAMES:
                life = self._life(name)
                assert life is not None
                life.read(self.partition)
                life.acknowledge(self._random, 1.0)
                life.say(self.partition)
            self.partition.core.look()
            self.settle()
        self.partition.core.look()
        self.partition.core.trim()


@pytest.mark.parametrize("seed", range(RUNS))
def test_whatever_comes_nothing_is_lost(tmp_path: Path, seed: int) -> None:
    """And nothing comes twice that need not."""
    world = World(tmp_path, Random(seed))
    for _ in range(STEPS):
        world.step()
    world.finish()
    for life in world._current.values():
        assert life.excused | set(life.had) == set(range(MESSAGES)), life.reader
    assert not world.partition.core.unread()
    log = world.partition.core.log
    assert [one.kind for one in log.read(0, ROOM)].count(1) < MESSAGES // 2, "the log is not trimmed"
    world.partition.core.close()
