"""The counts of one publisher without a log."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PublisherStatistics:
    """Counts of one publisher so far.

    Args:
        sequence: broadcast messages.
        records: in these.
        overflows: subscribers that were cut off because they fell behind.
        epochs_dropped: added up over subscribers.
        queued_bytes: the bytes in all queues; a message in several queues counts in each.
        lag_bytes, lag_messages: the waiting bytes and messages of the subscriber furthest behind.
        holders: subscribers that hold back the dataflow that publishes.
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
