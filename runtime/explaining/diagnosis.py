"""The reasons why a whole job does not go on."""

from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import islice

from tidewheel.progress import CompiledGraph, Location, Target
from tidewheel.runtime.description.plan import Plan
from tidewheel.runtime.explaining.explainer import Explainer
from tidewheel.runtime.explaining.explanation import Explanation
from tidewheel.runtime.explaining.job_view import JobView
from tidewheel.runtime.inputs.job_inputs import JobInputs
from tidewheel.runtime.worker.worker_report import BusyWorker, WorkerReport

_MOST_REASONS = 5


class Diagnosis:
    """Explains the probes, topics and captures of one job from what its workers report.

    Args:
        plan: the dataflow.
        inputs: its inputs.
        reports: asks the workers.
        notes: returns what else may keep the job from going on.
    """

    def __init__(
        self,
        plan: Plan,
        inputs: JobInputs,
        reports: Callable[[], Sequence[WorkerReport | BusyWorker]],
        notes: Callable[[], tuple[str, ...]],
    ) -> None:
        self._plan = plan
        self._inputs = inputs
        self._reports = reports
        self._notes = notes

    @cached_property
    def compiled(self) -> CompiledGraph:
        """The compiled graph of the dataflow."""
        return CompiledGraph(self._plan.graph())

    @cached_property
    def explicable(self) -> dict[str, Location]:
        """The places that can be explained, by name: a probe has a name before a topic, and that before a capture."""
        ends = {**self._plan.captures, **self._plan.topics}
        return {**{name: Target(operator, 0) for name, operator in ends.items()}, **self._plan.probes}

    def view(self) -> JobView:
        """Return the state of the job at this moment."""
        return JobView(self._plan, self.compiled, self._reports())

    def explain(self, name: str, view: JobView | None = None) -> Explanation:
        """Return what holds the frontier back at a probe, topic or capture."""
        seen = view if view is not None else self.view()
        return Explainer(seen, self.explicable[name], self._inputs.fed).explain(name, self._notes())

    def stuck(self, probe: str | None) -> str:
        """Say why nothing is left to do: what holds ``probe`` back or, if it is None, keeps the job from ending."""
        view = self.view()
        if probe is not None:
            return self._stuck_before(view, probe)
        names = [name for name, end in self.explicable.items() if len(view.frontier(end))]
        if not self._inputs.left_open:
            waiting = next((str(self.explain(name, view)) for name in names), None)
            return f"all inputs are closed, but {waiting or self._held(view)}"
        if any(not self._is_input(location) and view.is_first(location, at) for location, at in view.live):
            amiss = (self.explain(name, view) for name in names)
            text = next((str(one) for one in amiss if self._needs_more_than_inputs(one)), None)
            if text is not None:
                return text
        return f"advance or close the inputs first ({self._inputs.describe()})"

    def _stuck_before(self, view: JobView, probe: str) -> str:
        explanation = self.explain(probe, view)
        if not self._inputs.left_open:
            return f"all inputs are closed, but {explanation}"
        if self._needs_more_than_inputs(explanation):
            return str(explanation)
        holders = {holder.operator for holder in explanation.holders}
        behind = {name for name, number in self._plan.inputs.items() if self._plan.operators[number].name in holders}
        return f"advance or close the inputs first ({self._inputs.describe(behind)})"

    def _needs_more_than_inputs(self, explanation: Explanation) -> bool:
        inputs = {self._plan.operators[operator].name for operator in self._plan.inputs.values()}
        return any(holder.advice and holder.operator not in inputs for holder in explanation.holders)

    def _is_input(self, location: int) -> bool:
        return self.compiled.locations[location].operator in self._plan.inputs.values()

    def _held(self, view: JobView) -> str:
        """Name the tokens and messages that are left, for a job without probe or topic to explain."""
        texts = (
            f"{self._plan.describe(self.compiled.locations[location])} holds {count} token(s) for time {time!r}"
            if view.is_source(location)
            else f"{count} message(s) at time {time!r} wait at {self._plan.describe(self.compiled.locations[location])}"
            for (location, time), count in view.live.items()
        )
        return "; ".join(islice(texts, _MOST_REASONS))
