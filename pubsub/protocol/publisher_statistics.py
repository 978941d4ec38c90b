"""The counts of one publisher without a log."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PublisherStatistics:
    """What a publisher has done so far.

    Args:
        sequence: how many messages it has broadcast.
        records: how many records were in them.
        subscribers: how many subscribers are connected.
        overflows: how many subscribers were cut off because they fell behind.
        epochs_dropped: how many epochs were left out for those subscribers, added up.
        queued_bytes: how much waits in all queues together; a message in several queues counts in each.
        active_epochs: how many epochs are active.
        lag_bytes, lag_messages: how much waits for the subscriber that is furthest behind.
        holders: how many subscribers hold back the dataflow that publishes.
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
