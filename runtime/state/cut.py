"""The consistent cut of a running dataflow, for one worker; without I/O.

The members of a job are its workers and feeders. Each member sends the number of its snapshot in each envelope. A
member begins the next snapshot between two steps: it takes its part, and from then on sends the new number. A worker
does so before it applies the first envelope with the new number. It then waits for an envelope with the new number from
each member. Envelopes with the old number that arrive meanwhile were in flight at the cut, and belong to the worker's
part. No others can follow, since envelopes between two members keep their order.

Feeders come and go, and worker 0 knows them. The feeders that worker 0 knows when a snapshot begins take part; later
feeders take part in the next snapshot. So each worker waits for worker 0, which sends the list of feeders. A feeder
leaves worker 0 last, when all workers have all its envelopes.

Source: Chandy and Lamport, "Distributed snapshots", TOCS 1985; Lai and Yang, "On distributed snapshots", IPL 1987.
"""

from collections.abc import Collection, Iterable


class Cut:
    """One worker's state in the protocol of the cut.

    Attributes:
        settled: the number of the snapshot, if all members have begun it and their envelopes need no check; otherwise
            -1.

    >>> cut = Cut()
    >>> cut.begins(1), cut.begin(1, [1, 2]), cut.settled
    (True, None, -1)
    >>> cut.is_late(0), cut.is_late(1)
    (True, False)
    >>> cut.arrived(1, 1), cut.arrived(2, 1)
    (False, True)
    """

    def __init__(self, number: int = 0) -> None:
        self.number = self.settled = number
        self._awaited: set[int] = set()
        self._arrived: set[int] = set()
        self._left: dict[int, int] = {}

    def begins(self, number: int) -> bool:
        """Tell whether an envelope with this number begins a snapshot, so that the worker must take its part first."""
        return number > self.number

    def begin(self, number: int, members: Iterable[int]) -> None:
        """Begin a snapshot, and wait for all members. A pending snapshot is given up."""
        self.number = number
        self._arrived = set()
        self._awaited = set(members)
        self.settled = -1 if self._awaited else number

    def wait_for(self, feeders: Collection[int]) -> None:
        """Wait for the feeders that worker 0 knew at its cut, except those that have arrived or left.

        Call this before worker 0 counts as arrived. A feeder that is not in ``feeders`` and has left never returns.
        """
        self._awaited.update(feeder for feeder in feeders if feeder not in self._arrived and feeder not in self._left)
        self._left = {one: number for one, number in self._left.items() if one in feeders or number >= self.number}

    def is_late(self, number: int) -> bool:
        """Tell whether an envelope with this number was in flight at the cut."""
        return number < self.number and bool(self._awaited)

    def arrived(self, member: int, number: int) -> bool:
        """Record an envelope of a member; return whether that was the last member to wait for."""
        if number < self.number:
            return False
        self._arrived.add(member)
        if member not in self._awaited:
            return False
        self._awaited.discard(member)
        if not self._awaited:
            self.settled = self.number
        return not self._awaited

    def gone(self, feeder: int, number: int) -> bool:
        """Remove a feeder that left during snapshot ``number``; return whether it was the last member to wait for."""
        self._left[feeder] = number
        return self.arrived(feeder, self.number)
