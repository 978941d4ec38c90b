"""The k-core of friendships that begin and end: the people left if all with less than k friends go, again and again."""

from functools import partial

import tidewheel as tw
from examples.parts.history import added, removed, show


def core(friends: tw.Collection, least: int) -> tw.Collection:
    """Return the friendships in both directions between people who have ``least`` of them among each other."""

    def stay(pairs: tw.Collection) -> tw.Collection:
        counts = pairs.map(lambda pair: pair[0]).count()
        popular = counts.filter(lambda counted: counted[1] >= least).map(lambda counted: counted[0])
        return pairs.semijoin(popular).map(turn).semijoin(popular).map(turn)

    return friends.concat(friends.map(turn)).iterate(stay)


def turn(pair: tuple[str, str]) -> tuple[str, str]:
    return pair[::-1]


if __name__ == "__main__":
    triangle = [("ann", "bob"), ("bob", "cat"), ("cat", "ann"), ("cat", "dan")]
    show(__doc__, partial(core, least=2), [added(triangle), removed([("ann", "bob")]), added([("dan", "bob")])])
