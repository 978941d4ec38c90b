"""The numbers of messages by the events of the worker, over all its lives, as it goes back to a snapshot.

Each event of the worker becomes one message, and so does each return to a snapshot. A worker that went back counts its
events on from those that the snapshot has. So a count of events belongs to several messages, and the last of these that
was not void is the one that is meant.
"""


class Timeline:
    """The worker's count of events and the publisher's number of messages, side by side.

    Args:
        events: what the worker counts at first.
        number: the number of the last message at that moment.

    >>> timeline = Timeline()
    >>> timeline.go_back(events=3, number=6)  # after 5 events; the return is message 6
    >>> [timeline.number_of(events) for events in (2, 3, 4)], timeline.events_at(8)
    ([2, 3, 7], 5)
    """

    def __init__(self, events: int = 0, number: int = 0) -> None:
        self._pieces = [(events, number)]

    def events_at(self, number: int) -> int:
        """Return the worker's count of events at the last message, which is ``number``."""
        begin, first = self._pieces[-1]
        return begin + number - first

    def number_of(self, events: int) -> int:
        """Return the number of the message of the last of so many events."""
        begin, number = next((piece for piece in reversed(self._pieces) if piece[0] < events), self._pieces[0])
        return number + events - begin

    def go_back(self, events: int, number: int) -> None:
        """Record that the worker goes on from ``events``, and that the message of that has ``number``."""
        self._pieces = [piece for piece in self._pieces if piece[0] < events] or self._pieces[:1]
        self._pieces.append((events, number))
