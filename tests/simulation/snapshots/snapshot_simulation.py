"""A job that takes snapshots, crashes, and goes on from one of them, perhaps on another number of workers."""

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import count
from random import Random
from typing import Any, TypeAlias

import tidewheel as tw
from tests.kit.operators.operator_case import plain_bags
from tests.kit.simulation.injection import replaced
from tests.kit.simulation.violation import TooLargeError, ViolationError
from tests.simulation.network import Network
from tests.simulation.scenario import Scenario
from tests.simulation.snapshots.driver import Script
from tests.simulation.snapshots.job_life import JobLife, Restored, ToldEnds
from tests.simulation.snapshots.random_dataflow import RandomDataflow
from tests.simulation.snapshots.witness import Tokens
from tests.simulation.snapshots.world import World
from tidewheel.operators.sinks import capture
from tidewheel.progress import Time
from tidewheel.runtime.errors import JobError, SnapshotError
from tidewheel.runtime.snapshots import part_writer
from tidewheel.runtime.state import keyed_state

_MOST_RECEIVED = 2000
_MOST_MORE = 800
_REFUSED = ("in one piece", "Go on with as many as before, take a snapshot")
"""The errors of what cannot go on with another number of workers."""

Outputs: TypeAlias = dict[str, dict[Time, Counter[str]]]


class SnapshotSimulation:
    """One simulation.

    Attributes:
        described: the dataflow, and ``plan``, what workers run of it.
        network: between workers, the driver and feeders.
        restored: the snapshots from which it went on.
        refused: how often a state in one piece, or substreams, could not go on with another number of workers.
        outputs: how often each record came out, by capture and time.
    """

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self._world = World(scenario.random("world"))
        self._tokens = Tokens()
        random = scenario.random("dataflow")
        dataflow = self.described = self._describe(random)
        self.plan, self._cases = dataflow.plan, dataflow.cases
        ended = dataflow.ended_inputs
        self._scripts = {
            name: Script.with_ends(random) if name in ended else Script.of(random) for name in self.plan.inputs
        }
        self._numbers = count(1)
        self.network = Network()
        self.restored: list[Restored] = []
        self.refused = 0
        self.outputs: Outputs = {}

    def _describe(self, random: Random) -> RandomDataflow:
        return RandomDataflow(random, self._world)

    def run(self) -> "SnapshotSimulation":
        """Run it without a crash, and then with crashes; raise ViolationError where a promise is broken."""
        with self._patched():
            expected, told = self._undisturbed()
            self._disturbed(told)
        if self.outputs != expected:
            raise ViolationError("outputs", _differences(self.outputs, expected))
        return self

    def _patched(self) -> ExitStack:
        """Return a context in which chance, and what costs time, are those of the simulation."""
        scenario = self.scenario
        with ExitStack() as stack:
            keys = scenario.random("keys of captures")
            stack.enter_context(replaced(capture, "randbits", lambda _: keys.getrandbits))
            stack.enter_context(replaced(keyed_state, "_LEAST_SWEPT", lambda _: scenario.least_swept))
            stack.enter_context(replaced(keyed_state, "_MOST_CHANGED", lambda _: scenario.most_changed))
            stack.enter_context(replaced(part_writer, "_politely", lambda _: iter))
            stack.enter_context(self._tokens.watched())
            return stack.pop_all()

    def _undisturbed(self) -> tuple[Outputs, ToldEnds]:
        """Return what comes out if nothing waits, and nothing crashes, and of which ends operators are told."""
        cluster = self._cluster(0, None, Random(0))
        self._world.drain()
        self._finish(cluster, Random(0))
        if sum(port.consumed for core in cluster.cores for port in core._ports.values()) > _MOST_RECEIVED:
            raise TooLargeError("too many messages")
        for name, (case, number) in self._cases.items():
            found = plain_bags(tw.types.Captured(*result) for core in cluster.cores for result in core.captured(name))
            expected = case.expected(self._scripts[f"input {number}"].feed())
            if found != expected:
                raise ViolationError("plain", f"{case} has {found}, and plain Python {expected}")
        return cluster.captured(list(self.plan.captures)), cluster.told_ends()

    def _disturbed(self, told: ToldEnds) -> None:
        snapshot: Restored | None = None
        *before, last = range(len(self.scenario.lives))
        for life in before:
            random = self.scenario.random(f"life {life}")
            cluster = self._cluster(life, snapshot, random)
            self._live(cluster, life, random)
            if random.random() < 0.1:
                self._finish(cluster, random)
                cluster.check_ends(told)
            snapshot = self._after_crash(cluster, random) or snapshot
        random = self.scenario.random(f"life {last}")
        cluster = self._cluster(last, snapshot, random)
        self._live(cluster, last, random)
        self._finish(cluster, random)
        cluster.check_ends(told)
        self.outputs = cluster.captured(list(self.plan.captures))

    def _cluster(self, life: int, snapshot: Restored | None, random: Random) -> JobLife:
        options, inner = (
            self.scenario.lives[life],
            (self.plan, self._world, self.network, self._scripts, random, self._tokens),
        )
        try:
            return JobLife(options, *inner, snapshot, life, self._attachments(options.workers))
        except (JobError, SnapshotError) as error:
            if snapshot is None or not any(why in str(error) for why in _REFUSED):
                raise
            self.refused += 1
            return JobLife(replace(options, workers=len(snapshot.workers)), *inner, snapshot, life)

    def _attachments(self, workers: int) -> Sequence[Mapping[str, Any]]:
        """Return what each worker has of the attachments of the dataflow, if it has some."""
        return ()

    def _live(self, cluster: JobLife, life: int, random: Random) -> None:
        """Let random things happen; mostly until there are some snapshots, and for a while after that."""
        events = self.scenario.lives[life].events
        drained_at = random.choice((None, None, None, random.randrange(events)))
        for event in range(events):
            if event == drained_at:
                self._world.drain()
            self._act(cluster, random)
        most = random.choice((0, _MOST_MORE, _MOST_MORE, _MOST_MORE))
        wanted = random.choice((1, 2, 4))
        while most > 0 and len(cluster.snapshots.complete) < wanted:
            self._act(cluster, random)
            most -= 1
        for _ in range(random.randint(0, events) if most else 0):
            self._act(cluster, random)

    def _act(self, cluster: JobLife, random: Random) -> None:
        chance = random.random()
        if chance < 0.06:
            cluster.act()
        elif chance < 0.16:
            if not cluster.is_taking or random.random() < 0.03:
                cluster.driver.begin_snapshot(next(self._numbers))
        elif chance < 0.25:
            cluster.write()
        else:
            cluster.move()

    def _finish(self, cluster: JobLife, random: Random) -> None:
        """Have the driver do all it has to do, let operators wait no more, and check that all comes to its end.

        A snapshot may be taken of what has ended.
        """
        while not cluster.is_fed:
            cluster.act()
            for _ in range(5):
                cluster.move()
        self._world.drain()
        cluster.settle()
        if random.random() < 0.3:
            cluster.driver.begin_snapshot(next(self._numbers))
            cluster.settle()
        cluster.check_end()
        for _ in cluster.cores:
            cluster.write()

    def _after_crash(self, cluster: JobLife, random: Random) -> Restored | None:
        """Return a snapshot to go on from: the last that is complete, or the one before; None if there is none."""
        complete = cluster.snapshots.complete[-2:]
        if not complete:
            return None
        number = complete[-1] if random.random() < 0.8 else complete[0]
        snapshot = cluster.restored(number)
        self.restored.append(snapshot)
        return snapshot


def _differences(found: Outputs, expected: Outputs) -> str:
    lines = []
    for name, times in expected.items():
        for time in sorted({*times, *found[name]}):
            more, less = found[name][time] - times[time], times[time] - found[name][time]
            if more or less:
                lines.append(f"{name} at {time!r}: too much {dict(more)}, missing {dict(less)}")
    return "after a crash, outputs differ from those without:\n  " + "\n  ".join(lines)
