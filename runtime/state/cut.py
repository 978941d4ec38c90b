"""The consistent cut of a running dataflow, as one worker sees it; without I/O.

Each member of a job is in a snapshot, by number, and says in each envelope in which. A member that is to begin the next
one does so between two steps: it takes its part, and from then on its envelopes say the new number. A worker begins it
at the first envelope of the new number, before it applies that. Then the worker waits for one envelope of the new
number from each member. What still comes of the old number was on its way when the cut was made, so it belongs to the
worker's part. As what one member sends to another keeps its order, nothing can come later than that.

Nobody stops, and no loop or epoch is waited for.

Feeders come and go. Worker 0 knows them: one that it knows when it begins a snapshot is waited for by all, and one that
comes later begins in that snapshot. So a worker waits for worker 0, which tells it of the feeders. A feeder that leaves
has left all other workers before worker 0, so what it has sent before it left has come.

Source: Chandy and Lamport, "Distributed snapshots", TOCS 1985; Lai and Yang, "On distributed snapshots", IPL 1987.
"""

from collections.abc import Collection, Iterable


class Cut:
    """One worker's place in the protocol.

    Args:
        number: the snapshot in which all members begin.

    Attributes:
        number: the snapshot that this worker is in.
        settled: the same if all members are in it, so that their envelopes need no look; -1 while some may not be.

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
        """Tell whether an envelope of a snapshot begins that, so that this worker has to take its part first."""
        return number > self.number

    def begin(self, number: int, members: Iterable[int]) -> None:
        """Begin a snapshot, and wait for all members; one that was under way is given up."""
        self.number = number
        self._arrived = set()
        self._awaited = set(members)
        self.settled = -1 if self._awaited else number

    def wait_for(self, feeders: Collection[int]) -> None:
        """Wait for the feeders that worker 0 knew when it began the snapshot, but for those that are through with it.

        It says so before it counts as arrived. One that has left in an earlier snapshot and that it does not know any
        more never comes again.
        """
        self._awaited.update(feeder for feeder in feeders if feeder not in self._arrived and feeder not in self._left)
        self._left = {one: number for one, number in self._left.items() if one in feeders or number >= self.number}

    def is_late(self, number: int) -> bool:
        """Tell whether an envelope was on its way when the cut was made, so that it belongs to the part."""
        return number < self.number and bool(self._awaited)

    def arrived(self, member: int, number: int) -> bool:
        """Note an envelope of a member; return whether it is the last that was waited for."""
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
        """Wait no more for a feeder that has left, in the snapshot ``number``; return whether it was the last."""
        self._left[feeder] = number
        return self.arrived(feeder, self.number)
