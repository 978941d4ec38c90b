"""The counts of a publisher that has no log."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PublisherStatistics:
    """The counts of one publisher so far.

    Args:
        sequence: messages to all subscribers.
        records: records in these messages.
        overflows: subscribers that were disconnected because they fell behind.
        epochs_dropped: dropped epochs, added up over subscribers.
        queued_bytes: the bytes in all queues; a message in several queues counts in each.
        lag_bytes, lag_messages: the waiting bytes and messages of the subscriber furthest behind.
        holders: subscribers that hold back the publishing dataflow.
    """

    sequence: int
    records: int
    subscribers: int
    overflows: int
    epochs_dropped: int
    queued_bytes: int
    active_epochs: int
    lag_bytes: int
    lag_messages: int
    holders: int
