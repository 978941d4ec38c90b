"""From single batches to whole epochs."""

from tidewheel.progress import Time, TimeDomain
from tidewheel.pubsub.messages.events import Batch, Epoch, Event, Frontier, SubstreamsEnded
from tidewheel.pubsub.protocol.waiting_epochs import WaitingEpochs


class EpochAssembler:
    """Collects batches by time and returns each epoch once it is complete: no time at or before it can still occur.

    No epoch comes before an earlier one. Unordered epochs come in the order of their first batches where that is
    possible. Epochs without data, or ends of substreams, do not come at all.

    Source: seed "Strymon publish-subscribe", section "Design Goals" (completed epochs).
    """

    def __init__(self, domain: TimeDomain) -> None:
        self._waiting = WaitingEpochs[Batch | SubstreamsEnded](domain)

    def receive(self, event: Event) -> list[Epoch]:
        """Receive one event of a subscriber and return the epochs that it completes.

        Complexity: as of `WaitingEpochs`; in a total order O(log n) for each frontier and O(1) for each batch.
        """
        if isinstance(event, Frontier):
            return [_epoch(time, events) for time, events in self._waiting.take_passed(event.frontier)]
        if isinstance(event, Batch | SubstreamsEnded):
            self._waiting.at(event.time).append(event)
        return []

    def __len__(self) -> int:
        """The number of epochs that wait."""
        return len(self._waiting)


def _epoch(time: Time, events: list[Batch | SubstreamsEnded]) -> Epoch:
    events.sort(key=lambda event: event.partition)
    batches = tuple(event for event in events if isinstance(event, Batch))
    return Epoch(time, batches, tuple(event for event in events if isinstance(event, SubstreamsEnded)))
