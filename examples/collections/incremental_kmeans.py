"""k-means of points that come and go: centres move to the middle of the points nearest to them, until none moves."""

import tidewheel as tw
from examples.parts.history import added, removed, show

Point = tuple[int, int]


def centres(points: tw.Collection, first: tw.Collection, rounds: int = 50) -> tw.Collection:
    """Return pairs (number, place) of centres, which begin as ``first``; points and places are pairs of whole numbers.

    A centre that is nearest to no point is left out.
    """

    def move(found: tw.Collection) -> tw.Collection:
        each = everywhere.join(
            found.map(lambda centre: (0, centre)), lambda _, point, centre: (point, offer(point, centre))
        )
        return each.reduce_min().map(lambda nearest: (nearest[1][1], nearest[0])).reduce(middle)

    everywhere = points.map(lambda point: (0, point))
    return first.iterate(move, max_rounds=rounds)


def offer(point: Point, centre: tuple[int, Point]) -> tuple[int, int]:
    """Return the square of a distance, and the number of the centre."""
    number, (x, y) = centre
    return (point[0] - x) ** 2 + (point[1] - y) ** 2, number


def middle(number: int, points: list[Point]) -> list[Point]:
    return [(sum(x for x, _ in points) // len(points), sum(y for _, y in points) // len(points))]


if __name__ == "__main__":
    near, far = [(0, 0), (0, 10), (10, 0)], [(90, 90), (90, 100)]
    show(__doc__, centres, [added(near + far), added([(50, 50)]), removed(near)], [added([(0, (0, 0)), (1, (1, 1))])])
