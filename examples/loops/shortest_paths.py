"""Shortest paths in a city whose streets close and open again: a change costs what it touches, not the whole city.

The round of the loop is the distance: an offer to reach a place in 7 minutes is a message that arrives in round 7, and
when that round is complete, nothing nearer can come. So a place that has lost its way waits for the round of its next
best offer, and by then every offer that is no longer good has been taken back. Rounds in which nothing comes are free.

Source: "An incremental algorithm for a generalization of the shortest-path problem" (Ramalingam and Reps, 1996).
"""

import random

import tidewheel as tw
from examples.parts.city_share import Change, CityShare, Place, Street
from examples.parts.program import by_epoch, options
from examples.parts.rounds import go_round

SIZE = 30


def distances(changes: tw.Stream[Change], start: Place) -> tw.Stream[tuple[Place, int | None]]:
    """Return, for each epoch of changes, the places whose distance is another now, and how many minutes it is."""
    keys = [lambda change: change[0][0], lambda offer: offer[0]]
    moved = go_round(changes, "improve", lambda: CityShare(start), keys)
    # A place that is lost in one round may be found again in a later one.
    return moved.aggregate(
        lambda move: move[0], start=lambda: None, add=lambda last, move: move[1] if last is None else last
    )


def streets() -> list[Street]:
    """Make a city: streets in both directions between neighbouring crossings, each of 1 to 9 minutes."""
    random.seed(1)
    places = [(x, y) for x in range(SIZE) for y in range(SIZE)]
    pairs = [(here, (here[0] + dx, here[1] + dy)) for here in places for dx, dy in ((1, 0), (0, 1))]
    inside = [pair for pair in pairs if max(pair[1]) < SIZE]
    return [(*ends, random.randint(1, 9)) for pair in inside for ends in (pair, pair[::-1])]


def closures(city: list[Street], epochs: int) -> list[list[Change]]:
    """Return the changes of each epoch: all streets open, then some close, and open again an epoch later."""
    found = [[(street, 1) for street in city]]
    for _ in range(epochs):
        reopened = [(street, 1) for street, change in found[-1] if change == -1]
        found.append([*reopened, *((street, -1) for street in random.sample(city, len(city) // 30))])
    return found


def main() -> None:
    chosen = options(__doc__)
    epochs = closures(streets(), epochs=6)
    flow = tw.Dataflow("shortest paths")
    changes = flow.source("changes", tw.IterableSource([list(enumerate(epochs))]))
    distances(changes, start=(0, 0)).capture("distances")
    with tw.run(flow, workers=chosen.workers, engine=chosen.engine) as job:
        job.wait(timeout_s=120)
        minutes: dict[Place, int | None] = {}
        for epoch, batches in by_epoch(job, "distances").items():
            before, minutes = minutes, minutes | dict(move for batch in batches for move in batch)
            farther = sum((minutes[place] or 10**9) > (before[place] or 10**9) for place in before)
            print(
                f"epoch {epoch}: {len(epochs[epoch]):5,} changes of streets; {farther:3} places are farther away; "
                f"the opposite corner is {minutes[SIZE - 1, SIZE - 1]} minutes away"
            )


if __name__ == "__main__":
    main()
