"""The inputs of one job as its driver feeds them."""

from collections.abc import Collection, Sequence

from tidewheel.runtime.description.plan import Plan
from tidewheel.runtime.explaining.statistics import InputStatistics
from tidewheel.runtime.inputs.fed_input import FedInput
from tidewheel.runtime.inputs.feed import EndCall, Feed
from tidewheel.runtime.inputs.input_handle import InputHandle
from tidewheel.runtime.worker.worker_report import WorkerReport


class JobInputs:
    """All inputs of a job, each with the handle with which it begins.

    Attributes:
        fed: what this process has sent to each, and the handles that it has open.
        first: the first handle of each.
        tell_end: tells feeders in other processes that the job has ended.
    """

    def __init__(self) -> None:
        self.fed: dict[str, FedInput] = {}
        self.first: dict[str, InputHandle] = {}
        self.tell_end: EndCall = lambda failure: None

    def open(self, plan: Plan, feed: Feed) -> None:
        """Make the handles with which the inputs begin."""
        self.tell_end = feed.tell_end
        for name in plan.inputs:
            fed = self.fed[name] = FedInput(name, plan.input_nesting(name).domain, feed)
            self.first[name] = InputHandle(fed, fed.domain.minimum())

    @property
    def left_open(self) -> list[str]:
        """The names of the inputs that this process has open."""
        return [name for name, fed in self.fed.items() if fed.open]

    @property
    def are_fed(self) -> bool:
        """Whether an input is open, in this process or in another one."""
        return any(fed.open or fed.handed_over for fed in self.fed.values())

    def describe(self, among: Collection[str] | None = None) -> str:
        """Say for people which inputs are open; ``among`` has the names of those that matter, None if all do."""
        handles = [
            handle
            for name, fed in self.fed.items()
            if among is None or name in among
            for handle in list(fed.open.values())
        ]
        open_here = ", ".join(f"{handle.name!r} at time {handle.time!r}" for handle in handles)
        handed_over = [f"{fed.handed_over} of {name!r}" for name, fed in self.fed.items() if fed.handed_over]
        elsewhere = f"; handles that were handed to other processes: {', '.join(handed_over)}" if handed_over else ""
        return (f"open inputs: {open_here}" if handles else "all inputs are closed") + elsewhere

    def statistics(self, reports: Sequence[WorkerReport]) -> dict[str, InputStatistics]:
        """Return what was sent to each input: by this process, and by others as the workers report it."""
        inputs = {name: fed.statistics for name, fed in self.fed.items()}
        for report in reports:
            inputs.update({name: inputs[name] + one for name, one in report.fed.items()})
        return inputs
