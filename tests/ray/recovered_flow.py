"""A dataflow with much state that can be lost, for tests that kill its processes, and its feed."""

import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import tidewheel as tw
from tidewheel.runtime.description.plan import Schedule

DEADLINE_S = 60.0
EPOCHS = 120
CAPTURES = ("sums", "counts", "visits", "sessions", "late", "firsts", "ranks")
STEPS, MORE_STEPS = (3, 5, 11), (2, 7)
ROUNDS = 4
PAGES = 8
MOST_RETURNS = 20
"""A handle that does not go back with its job raises `JobRolledBack` whenever it is used."""


def describe(*inputs: str, also: Callable[[dict[str, tw.Stream[Any]]], None] | None = None) -> tw.Dataflow:
    """Have state by key, epochs, a loop of many rounds, sessions, a memory of what has come, and a web that changes.

    Args:
        inputs: the names of its inputs; none is "numbers" alone.
        also: receives the streams that are captured, by name.
    """
    flow = tw.Dataflow("recovered")
    numbers, *others = map(flow.input, inputs or ("numbers",))
    found = computed(numbers.concat(*others) if others else numbers)
    for name, stream in found.items():
        stream.capture(name)
    found["ranks"].probe("done")
    if also is not None:
        also(found)
    return flow


def computed(numbers: tw.Stream[int]) -> dict[str, tw.Stream[Any]]:
    """Return the results of each epoch, which do not depend on the order of its numbers."""
    sums = numbers.aggregate(lambda n: n % 7, start=int, add=lambda total, n: total + n, name="summed")
    walked = numbers.map(steps).exchange(abs).iterate(lambda left: (left.map(less).filter(is_left).exchange(abs), left))
    sessions = numbers.window(tw.SessionWindows(gap=3), key=lambda n: n % 5, at=happened, finish=in_order, lateness=2)
    links = numbers.broadcast().unary(build_web, name="web")
    pages = links.flat_map(list).distinct().map(lambda page: (page, 1_000_000))
    return {
        "sums": sums.stateful_map(first, start=int, step=added, name="sums"),
        "counts": numbers.count(name="counted"),
        "visits": walked.count(name="visits"),
        "sessions": sessions.results,
        "late": sessions.late,
        "firsts": numbers.deduplicate(lambda n: n % 101),
        "ranks": pages.iterate(passed_on, name="ranking", max_rounds=ROUNDS, beside=[links]),
    }


def batch_of(epoch: int, name: str = "numbers") -> list[int]:
    """Return what an input sends in an epoch: numbers that no other epoch has."""
    return [epoch * 23 + (epoch * step) % 23 for step in (STEPS if name == "numbers" else MORE_STEPS)]


def added(total: int, pair: tuple[int, int]) -> tuple[int, tuple[int, int]]:
    key, number = pair
    return total + number, (key, total + number)


def steps(number: int) -> int:
    """Return how often a number goes round the loop."""
    return number % 23


def less(number: int) -> int:
    return number - 1


def is_left(number: int) -> bool:
    return number > 0


def happened(number: int) -> int:
    """Return when a number happened: about at its epoch, sometimes so long before that it is late."""
    return number // 23 - number % 11


def in_order(session: list[int]) -> tuple[int, ...]:
    return tuple(sorted(session))


def build_web(context: tw.OperatorContext) -> Schedule:
    """Each number adds a link or removes it; after each epoch a worker sends those links that it owns."""
    links: set[tuple[int, int]] = context.state("links", set)
    held: dict[int, list[int]] = context.state("held", dict)
    complete = context.notificator()

    def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
        for lent, batch in input:
            held.setdefault(lent.time, []).extend(batch)
            complete.notify_at(lent)
        for token in complete.ready(input):
            for number in held.pop(token.time):
                links.symmetric_difference_update({(number % PAGES, number // PAGES % PAGES)})
            output.send(token, [link for link in sorted(links) if link[0] % context.workers == context.worker])

    return schedule


def passed_on(ranks: tw.Stream[Any], links: tw.Stream[Any]) -> tw.Stream[Any]:
    """Have each page pass most of its rank on, in equal parts over its links; integers have one sum in any order."""
    return (
        ranks.cogroup(links, first).flat_map(parts).aggregate(first, start=int, add=lambda total, part: total + part[1])
    )


def first(pair: tuple[int, int]) -> int:
    return pair[0]


def parts(group: tuple[int, list[tuple[int, int]], list[tuple[int, int]]]) -> list[tuple[int, int]]:
    page, ranks, links = group
    rank = sum(rank for _, rank in ranks)
    return [(page, 150_000), *((target, rank * 85 // 100 // len(links)) for _, target in links)]


def by_time(captured: tw.types.CapturedBatches) -> dict[Any, Counter[Any]]:
    found: dict[Any, Counter[Any]] = {}
    for one in captured:
        found.setdefault(one.time, Counter()).update(one.batch)
    return found


def results(job: tw.types.Job) -> dict[str, dict[Any, Counter[Any]]]:
    """Return all that the dataflow has sent, by capture and time."""
    return {name: by_time(job.captured(name)) for name in CAPTURES}


def do_nothing(epoch: int) -> None:
    """Let an epoch pass."""


def feed(job: tw.types.Job, at: Callable[[int], None] = do_nothing) -> int:
    """Send all epochs, again where the job goes back; return how often it has; ``at`` is as for `send_all`."""
    rewound = 0
    while True:
        try:
            send_all(job.input("numbers"), at)
            job.wait(DEADLINE_S)
        except tw.JobRolledBack:
            rewound += 1
            assert rewound < MOST_RETURNS
        else:
            return rewound


def send_all(handle: tw.types.InputHandle, at: Callable[[int], None] = do_nothing) -> None:
    """Send what comes after the position of a handle, and close it.

    Args:
        handle: the handle.
        at: is called before each epoch is sent, and with `EPOCHS` before the handle is closed.
    """
    for epoch in range(handle.position.batches, EPOCHS):
        at(epoch)
        handle.advance_to(epoch)
        handle.send(batch_of(epoch, handle.name))
        threading.Event().wait(0.005)  # so that there are snapshots in between
    at(EPOCHS)
    handle.close()
