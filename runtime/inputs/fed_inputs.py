"""The inputs that one process feeds."""

from collections.abc import Callable, Collection, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from tidewheel.batches.held_bytes import RecordSizes
from tidewheel.progress import Time, TimeDomain
from tidewheel.runtime.errors import TokenError
from tidewheel.runtime.messages.envelope import FIRST_HANDLE
from tidewheel.runtime.messages.input_position import InputPosition
from tidewheel.runtime.messages.statistics import InputStatistics
from tidewheel.runtime.messages.worker_report import WorkerReport

if TYPE_CHECKING:
    from tidewheel.runtime.inputs.feed import Feed
    from tidewheel.runtime.inputs.input_handle import InputHandle


@dataclass(slots=True, eq=False)
class FedInput:
    """An input that one process feeds: counts of its batches, and its open handles.

    Attributes:
        open: the open handles, by number. They are weak references in a process that must notice dropped handles.
        check: called with a batch and the number of earlier batches; raises TypeError for a batch of another type. None
            accepts all batches.
        ended: the handles that were closed or passed on, by every number that they have had in any process.
    """

    name: str
    domain: TimeDomain
    feed: "Feed"
    open: "MutableMapping[int, InputHandle]" = field(default_factory=dict)
    batches: int = 0
    records: int = 0
    bytes: int = 0
    waited_s: float = 0.0
    handed_over: int = 0
    sizes: RecordSizes = field(default_factory=RecordSizes)
    check: Callable[[Any, int], object] | None = None
    closed_at: InputPosition | None = None
    ended: "WeakValueDictionary[int, InputHandle]" = field(default_factory=WeakValueDictionary)

    @property
    def positions(self) -> Mapping[int, InputPosition]:
        closed = {} if self.closed_at is None else {FIRST_HANDLE: self.closed_at}
        return closed | {handle.number: handle.position for handle in list(self.open.values())}

    @property
    def times(self) -> tuple[Time, ...]:
        return tuple(handle.time for handle in list(self.open.values()))

    def is_at(self, time: Time) -> bool:
        first = self.open.get(FIRST_HANDLE)
        return first is not None and first.time == time

    def check_worker(self, worker: object) -> None:
        """Raise TokenError unless ``worker`` is None or the number of a worker."""
        is_number = isinstance(worker, Integral) and not isinstance(worker, bool)
        if worker is not None and not (is_number and worker in range(self.feed.workers)):
            raise TokenError(f"input {self.name!r} has no worker {worker!r}: there are {self.feed.workers}, from 0 on")

    @property
    def statistics(self) -> InputStatistics:
        return InputStatistics(self.batches, self.records, self.bytes, self.waited_s)


class FedInputs(dict[str, FedInput]):
    """The inputs that one process feeds, or has fed, by name."""

    @property
    def left_open(self) -> list[str]:
        return [name for name, fed in self.items() if fed.open]

    @property
    def to_close(self) -> str:
        clones = [name for name, fed in self.items() if set(fed.open) - {FIRST_HANDLE}]
        names = ", ".join(map(repr, self.left_open))
        return names + "".join(
            f"; job.handles({name!r}) has the clones, also if the program has not" for name in clones
        )

    def describe(self, among: Collection[str] | None = None) -> str:
        handles = [
            handle for name, fed in self.items() if among is None or name in among for handle in list(fed.open.values())
        ]
        open_here = ", ".join(f"{handle.name!r} at time {handle.time!r}" for handle in handles)
        handed_over = [f"{fed.handed_over} of {name!r}" for name, fed in self.items() if fed.handed_over]
        elsewhere = f"; handles that were handed to other processes: {', '.join(handed_over)}" if handed_over else ""
        lost = {f"; job.handles({one.name!r}) has the clones" for one in handles if one.number != FIRST_HANDLE}
        here = f"open inputs: {open_here}{''.join(sorted(lost))}" if handles else "all inputs are closed"
        return here + elsewhere

    def statistics(self, reports: Sequence[WorkerReport] = ()) -> dict[str, InputStatistics]:
        inputs = {name: fed.statistics for name, fed in list(self.items())}
        for report in reports:
            inputs.update({name: inputs[name] + one for name, one in report.fed.items()})
        return inputs
