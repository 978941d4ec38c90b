"""The statistics of a pubend."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PubendStatistics:
    """What a pubend has done since it was started, and what there is now.

    Attributes:
        messages: how many were taken of the worker, without those that were logged before.
        bytes: how many bytes those have.
        nacks: how often children have asked for something.
        children: how many relays and readers are connected.
        subscribers: how many subscriptions somebody reads.
        subscriptions: how many there are.
        durable_subscriptions: how many of them are durable.
        unread: how many of them have not acknowledged everything.
        log_bytes: how many bytes the log has.
        waiting_bytes: how much waits to be taken by children.
        dropped: how many messages children were not told as they did not read; they ask for those again.
    """

    messages: int
    bytes: int
    nacks: int
    children: int
    subscribers: int
    subscriptions: int
    durable_subscriptions: int
    unread: int
    log_bytes: int
    waiting_bytes: int
    dropped: int
