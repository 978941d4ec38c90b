"""Points that stay where they are, and centres that move until each is in the middle of the points nearest to it."""

from math import dist, inf
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

import tidewheel as tw

Points: TypeAlias = npt.NDArray[np.float64]
Centre: TypeAlias = tuple[int, float, float]
"""Its number, x and y."""

LAST_ROUND = tw.IntegerDomain().maximum
LEAST_MOVE = 1e-9


def nearest(context: tw.OperatorContext) -> Any:
    """Build an operator that sums up the points nearest to each centre, round by round, and sends them in the end."""
    kept: dict[Any, tuple[list[Points], dict[int, Centre], dict[int, Centre]]] = context.state("kept", dict)
    complete, settled = context.notificator(), context.notificator()

    def schedule(points: Any, centres: Any, sums: Any, clustered: Any) -> None:
        for port in (points, centres):
            for lent, batch in port:
                mine, _, new = kept.setdefault(lent.time[0], ([], {}, {}))
                if port is points:
                    mine.append(batch)
                else:
                    new |= {centre[0]: centre for centre in batch}
                complete.notify_at(lent, sums)
                settled.notify_at(lent.delayed((lent.time[0], LAST_ROUND), clustered))
        for token in complete.ready(points, centres, sequential=False):  # each epoch has what it keeps to itself
            mine, now, new = kept[token.time[0]]
            moved = max(
                (dist(centre, now.get(number, (number, inf, inf))) for number, centre in new.items()), default=0
            )
            now |= new
            new.clear()
            if moved > LEAST_MOVE:
                sums.send(
                    token, [(centre[0], np.array([*some.sum(axis=0), len(some)])) for centre, some in split(mine, now)]
                )
        for token in settled.ready(points, centres, sequential=False):
            mine, now, _ = kept.pop(token.time[0])
            clustered.send(token, split(mine, now))

    return schedule


def split(points: list[Points], centres: dict[int, Centre]) -> list[tuple[Centre, Points]]:
    """Return the points nearest to each centre that has any."""
    together = np.concatenate([np.empty((0, 2)), *points])
    in_order = sorted(centres.values())
    places = [np.square(together - centre[1:]).sum(axis=1) for centre in in_order]
    choice = np.argmin(places, axis=0)
    found = [(centre, together[choice == place]) for place, centre in enumerate(in_order)]
    return [(centre, some) for centre, some in found if len(some)]
