"""The statistics of a relay."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RelayStatistics:
    """What a relay has done since it was started.

    Attributes:
        node: the node of the cluster that it is on.
        children: how many subscribers and relays are connected to it.
        parents: to how many parents it is connected.
        messages: how many it was told.
        dropped: how many children were not told as they did not read; they ask for those again.
        nacks_heard: how often children have asked it for something.
        nacks_asked: how often it has asked its parents.
        cached_bytes: how much it has of what was published last.
        waiting_bytes: how much waits to be taken by children.
    """

    node: str
    children: int
    parents: int
    messages: int
    dropped: int
    nacks_heard: int
    nacks_asked: int
    cached_bytes: int
    waiting_bytes: int
