"""An input of a dataflow as one process feeds it."""

from collections.abc import MutableMapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tidewheel.progress import Time, TimeDomain
from tidewheel.runtime.explaining.statistics import InputStatistics
from tidewheel.runtime.inputs.feed import Feed
from tidewheel.runtime.worker.envelope import FIRST_HANDLE

if TYPE_CHECKING:
    from tidewheel.runtime.inputs.input_handle import InputHandle


@dataclass(slots=True, eq=False)
class FedInput:
    """An input as one process feeds it: what it sent there in all, and the handles that it has open.

    Attributes:
        name: the input's name.
        domain: its times.
        feed: what carries commands to the workers.
        open: the handles, by number; where it does not keep them, one that is dropped is noticed.
        batches, records, bytes: what was sent.
        waited_s: for how long that waited.
        handed_over: how many handles other processes have.
    """

    name: str
    domain: TimeDomain
    feed: Feed
    open: "MutableMapping[int, InputHandle]" = field(default_factory=dict)
    batches: int = 0
    records: int = 0
    bytes: int = 0
    waited_s: float = 0.0
    handed_over: int = 0

    @property
    def times(self) -> tuple[Time, ...]:
        """The times of the handles that are open."""
        return tuple(handle.time for handle in list(self.open.values()))

    def refuse(self, number: int, why: str) -> None:
        """Make a handle useless."""
        handle = self.open.pop(number, None)
        if handle is not None:
            handle._ended = why

    def is_at(self, time: Time) -> bool:
        """Tell whether the first handle is open and at a time."""
        first = self.open.get(FIRST_HANDLE)
        return first is not None and first.time == time

    @property
    def statistics(self) -> InputStatistics:
        """What was sent, and how long it waited for the dataflow."""
        return InputStatistics(self.batches, self.records, self.bytes, self.waited_s)
