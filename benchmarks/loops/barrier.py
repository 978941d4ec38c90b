"""The cost of a round of a loop without records: workers tell each other only how far they are.

An operator holds a token for round ``r`` on every worker, and goes on to the next round once its frontier says that
all of them are in it: one exchange of progress between all workers, and no records. Beside it, in turn:

- the floor: as many pickled change batches over bare ZeroMQ, between as many processes, without progress tracking;
- a Ray actor round trip: a call of a method that does nothing, and its result.
"""

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pickle import HIGHEST_PROTOCOL, dumps, loads
from statistics import median, quantiles
from time import perf_counter
from typing import Any

import tidewheel as tw
from benchmarks.measuring.measurement import Report, arguments
from benchmarks.measuring.transport_floor import Peer, ray_cluster, run_together
from tidewheel.runtime.description.plan import Schedule
from tidewheel.transport.link import LinkName

DEADLINE_S = 60.0
WARM_UP = 0.1
"""The share of the rounds, at the beginning, that do not count."""


def main() -> None:
    options = arguments("Measure what an empty round of a loop costs.")
    report = Report()
    with ray_cluster():
        measure(report, repetitions=1 if options.quick else 7, rounds=300 if options.quick else 3000)
    report.finish(options.json)


def measure(report: Report, repetitions: int, rounds: int) -> None:
    """Let the contestants take turns; each turn is ``rounds`` rounds of its own."""
    contestants: dict[str, Callable[[], list[float]]] = {}
    for workers in (2, 4):
        contestants[floor_name(workers)] = partial(floor, workers, rounds)
        contestants[link_name(workers, "socket")] = partial(barrier, workers, rounds, "socket")
        contestants[link_name(workers, "ray")] = partial(barrier, workers, rounds // 10, "ray")
    contestants["a Ray actor round trip"] = partial(round_trips, idle_actor(), rounds // 5)
    found: dict[str, list[list[float]]] = {name: [] for name in contestants}
    for _ in range(repetitions):
        for name, take_turn in contestants.items():
            found[name].append(take_turn())
    figures = {name: add(report, name, turns) for name, turns in found.items()}
    for workers, limit in ((2, 1.6), (4, 2.5)):
        ratio = figures[link_name(workers, "socket")] / figures[floor_name(workers)]
        report.expect(f"{workers} workers, link='socket': median round over the floor's, ratio", ratio, limit)
    ours = figures[link_name(2, "socket")]
    ratio = ours / figures["a Ray actor round trip"]
    report.expect("2 workers, link='socket': median round over a Ray actor round trip, ratio", ratio, 1 / 3)


def floor_name(workers: int) -> str:
    return f"{workers} processes, bare ZeroMQ: a round"


def link_name(workers: int, link: LinkName) -> str:
    return f"{workers} workers, link='{link}': a round"


def add(report: Report, name: str, turns: list[list[float]]) -> float:
    """Report median and 99th percentile, each the median of all turns, in microseconds; return the median."""
    counted = [turn[int(len(turn) * WARM_UP) :] for turn in turns]
    middle = report.add(f"{name}, median", [median(turn) * 1e6 for turn in counted], "us")
    report.add(f"{name}, p99", [quantiles(turn, n=100, method="inclusive")[98] * 1e6 for turn in counted], "us")
    return middle


# ---------------------------------------------------------------------- tidewheel


def barrier(workers: int, rounds: int, link: LinkName) -> list[float]:
    """Return how many seconds each round took, on worker 0."""
    with deploy(empty_rounds(rounds), workers, link) as job:
        job.input("start").close()
        job.wait(timeout_s=DEADLINE_S)
        (captured,) = job.captured("passed")
    return differences(captured.batch)


def deploy(flow: tw.Dataflow, workers: int, link: LinkName) -> tw.types.Job:
    return tw.run(flow, workers=workers, config=tw.RuntimeConfig(link=link))


def empty_rounds(rounds: int) -> tw.Dataflow:
    """Describe a loop of rounds in which nothing is sent; they begin when the input is closed."""
    flow = tw.Dataflow("barrier")
    start = flow.input("start")
    with flow.scope("loop") as loop:
        feedback = loop.feedback()
        barrier = start.enter(loop).concat(feedback).unary(partial(build_barrier, rounds), name="barrier")
        feedback.connect(barrier)
    barrier.leave().capture("passed")
    return flow


def build_barrier(rounds: int, context: tw.OperatorContext) -> Schedule:
    """Build an operator that passes rounds, and sends in the end, from worker 0, when it passed each."""
    token = context.token()
    passed: list[float] = []

    def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
        for _ in input:
            pass  # what is sent in the end also comes round
        if not token.is_live or input.frontier.less_equal(token.time):
            return
        passed.append(perf_counter())
        if len(passed) <= rounds:
            token.downgrade((0, len(passed)))
            return
        with token:
            if context.worker == 0:
                output.send(token, passed)

    return schedule


def differences(times: list[float]) -> list[float]:
    return [after - before for before, after in pairwise(times)]


# ---------------------------------------------------------------------- what it is compared with


def floor(workers: int, rounds: int) -> list[float]:
    """Return how many seconds each round took without tidewheel."""
    times: list[float] = run_together(trade_batches, workers, rounds)[0]
    return differences(times)


def trade_batches(peer: Peer, rounds: int) -> list[float]:
    """Send a change batch to each peer and get one from each, again and again; return when each round was over."""
    times = []
    for number in range(rounds + 1):
        location = 7
        changes = [((location, (0, number)), -1), ((location, (0, number + 1)), 1)]
        batch = dumps(changes, HIGHEST_PROTOCOL)
        for socket in peer.to.values():
            socket.send(batch)
        for socket in peer.of.values():
            assert loads(socket.recv()) == changes  # noqa: S301 - from a process of our own
        times.append(perf_counter())
    return times


class Idle:
    """An actor that does nothing."""

    def call(self) -> None:
        """Return at once."""


def idle_actor() -> Any:
    import ray

    return ray.remote(num_cpus=0)(Idle).remote()


def round_trips(actor: Any, count: int) -> list[float]:
    """Return how many seconds each call took until its result was there."""
    import ray

    times = [perf_counter()]
    for _ in range(count):
        ray.get(actor.call.remote(), timeout=DEADLINE_S)
        times.append(perf_counter())
    return differences(times)


if __name__ == "__main__":
    main()
