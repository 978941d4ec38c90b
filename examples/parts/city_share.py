"""One worker's share of a city: its places with the streets that leave them, and all offers to reach them."""

from collections import Counter, defaultdict
from collections.abc import Hashable
from itertools import chain
from typing import TypeAlias

from examples.parts.rounds import Round

Place: TypeAlias = Hashable
Street: TypeAlias = tuple[Place, Place, int]
"""From where, to where, and how many minutes it takes, at least 1."""

Change: TypeAlias = tuple[Street, int]
"""A street opens (1) or closes (-1)."""

Offer: TypeAlias = tuple[Place, int]
"""There are so many ways more, or less, to reach a place in as many minutes as is the number of the round."""


class CityShare:
    """The places that one worker owns, and how many minutes they are from ``start``, None if they cannot be reached."""

    def __init__(self, start: Place) -> None:
        self.streets: dict[Place, Counter[tuple[Place, int]]] = defaultdict(Counter)
        self.offers: dict[Place, Counter[int]] = defaultdict(Counter)
        self.minutes: dict[Place, int | None] = {start: 0}

    def work(self, number: int, entered: list[list[Change]], returned: list[list[Offer]]) -> Round:
        """Take streets, and the offers of this distance; say which places are now at this distance, or no more."""
        again: dict[int, list[Offer]] = defaultdict(list)
        moved: list[tuple[Place, int | None]] = []
        for (source, target, minutes), change in chain(*entered):
            self.streets[source][target, minutes] += change
            far = self.minutes.get(source)
            if far is not None:
                again[far + minutes].append((target, change))
        for place, change in chain(*returned):
            self.offers[place][number] += change
        for place in {place for place, _ in chain(*returned)}:
            now, offers = self.minutes.setdefault(place, None), self.offers[place]
            if offers[number] and (now is None or now > number):  # found, or found to be nearer
                self.move(again, place, number)
                moved.append((place, number))
            elif not offers[number] and now == number:
                self.move(again, place, None)
                moved.append((place, None))
            if self.minutes[place] is None:  # the next best offer, if it still holds in its round
                later = [minutes for minutes, ways in offers.items() if ways and minutes > number]
                again[min(later, default=0)].append((place, 0))
        return Round([(minutes - number, offers) for minutes, offers in again.items() if minutes], moved)

    def move(self, again: dict[int, list[Offer]], place: Place, minutes: int | None) -> None:
        """Set how far a place is; take back what it has offered to its neighbours, and offer anew."""
        before, self.minutes[place] = self.minutes.get(place), minutes
        for distance, change in ((before, -1), (minutes, 1)):
            if distance is not None:
                for (target, to_target), ways in self.streets[place].items():
                    again[distance + to_target].append((target, change * ways))
