"""Deadlocks between bank transfers: each locks two accounts, and some wait for each other, round in a circle.

A transfer that waits for an account waits for the transfer that holds it. In each round of the loop everyone's way
along these arcs becomes twice as long, by what is known of the transfer at which it ends; ways that end at a transfer
that waits for nobody are dropped. A way that comes back to where it began is a deadlock. So a circle of a thousand
takes ten rounds, and the loop ends when no way is left.
"""

import random
from typing import NamedTuple, TypeAlias

import tidewheel as tw
from examples.parts.program import by_epoch, options

Way: TypeAlias = tuple[int, ...]
"""Transfers, each of which waits for the next one."""


class Lock(NamedTuple):
    """A transfer holds an account, or waits for it."""

    transfer: int
    account: int
    held: bool


def deadlocks(locks: tw.Stream[Lock]) -> tw.Stream[Way]:
    """Return the circles in the locks of each epoch, each once, from its least transfer on."""
    holding, waiting = locks.branch(lambda lock: lock.held)
    return waiting.join(holding, lambda lock: lock.account).map(first_step).iterate(twice_as_long)


def first_step(pair: tuple[Lock, Lock]) -> Way:
    """Return the way from the one who waits for an account to the one who holds it."""
    return pair[0].transfer, pair[1].transfer


def twice_as_long(ways: tw.Stream[Way]) -> tuple[tw.Stream[Way], tw.Stream[Way]]:
    """Return the ways that go round again, and the circles that have been found."""
    longer = ways.join(ways, lambda way: way[-1], lambda way: way[0]).map(lambda pair: pair[0] + pair[1][1:])
    closed, others = longer.branch(lambda way: way[0] in way[1:])
    circles = closed.map(lambda way: way[: way.index(way[0], 1)])
    # A way that meets itself elsewhere leads into a circle, and is in none.
    return others.filter(lambda way: len(set(way)) == len(way)), circles.filter(lambda way: way[0] == min(way))


def lock_table(transfers: int, accounts: int) -> list[Lock]:
    """Return who holds and waits for what in a bank: each transfer locks one account, and once it has it, another."""
    holder: dict[int, int] = {}
    wanted = [random.sample(range(accounts), 2) for _ in range(transfers)]
    first = [Lock(number, one, holder.setdefault(one, number) == number) for number, (one, _) in enumerate(wanted)]
    second = [(lock.transfer, wanted[lock.transfer][1]) for lock in first if lock.held]
    return first + [Lock(number, other, holder.setdefault(other, number) == number) for number, other in second]


def main() -> None:
    chosen = options(__doc__)
    random.seed(1)
    tables = [lock_table(transfers=600, accounts=400) for _ in range(10)]
    flow = tw.Dataflow("deadlocks")
    deadlocks(flow.source("locks", tw.IterableSource([list(enumerate(tables))]))).capture("deadlocks")
    with tw.run(flow, workers=chosen.workers, engine=chosen.engine) as job:
        job.wait(timeout_s=60)
        found = by_epoch(job, "deadlocks")
    for minute, table in enumerate(tables):
        print(f"minute {minute}: {sum(not lock.held for lock in table)} of 600 transfers wait")
        for circle in sorted(circle for batch in found.get(minute, []) for circle in batch):
            print(f"    {' -> '.join(map(str, (*circle, circle[0])))}: rolls back {max(circle)}")


if __name__ == "__main__":
    main()
