"""Triangles in friendships that begin and end."""

import tidewheel as tw
from examples.parts.history import added, removed, show


def triangles(friends: tw.Collection) -> tw.Collection:
    """Return each three people, in order, of whom each two are in a pair (one, other) of ``friends``."""
    pairs = friends.map(lambda pair: (min(pair), max(pair))).distinct()
    wedges = pairs.join(pairs, lambda first, one, other: ((one, other), first))
    return wedges.semijoin(pairs).map(lambda wedge: (wedge[1], *wedge[0]))


if __name__ == "__main__":
    square = [("ann", "bob"), ("bob", "cat"), ("cat", "dan"), ("dan", "ann")]
    show(__doc__, triangles, [added(square), added([("cat", "ann")]), removed([("bob", "ann"), ("ann", "bob")][1:])])
