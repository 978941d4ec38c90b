"""The tokens that operators keep without need, as reports of a running job show.

One report of a busy job does not tell whether an operator is about to end a token, but two reports do. By the first,
the worker knows that the operator's inputs have passed the token's time. By the second, the operator has run and still
holds the token.
"""

from collections.abc import Iterable
from itertools import islice
from typing import Final

from tidewheel.progress import Target, Time
from tidewheel.progress.graph import Source
from tidewheel.runtime.explaining.job_view import JobView
from tidewheel.runtime.messages.worker_report import WorkerReport

_MOST: Final = 50

Held = tuple[int, Time, int]
"""A location, a time, and a worker that holds tokens there."""


class KeptTokens:
    """Remembers, for each token held too long, how often its operator had run when a report first showed that."""

    def __init__(self) -> None:
        self._runs: dict[Held, int] = {}

    def look(self, view: JobView, oldest: Iterable[Held]) -> frozenset[Held]:
        """Return those of the 50 oldest tokens that their operators have kept since an earlier report.

        Operators that have asked to be scheduled are left out, since they may still need the token.
        """
        before, self._runs, kept = self._runs, {}, []
        reports = {report.worker: report for report in view.reports}
        for held in islice(oldest, _MOST):
            report = reports.get(held[2])
            if report is not None and _is_late(view, held, report):
                runs = _runs(view, held, report)
                self._runs[held] = min(before.get(held, runs), runs)  # the count falls when a job goes back
                if runs > self._runs[held]:
                    kept.append(held)
        return frozenset(kept)


def _runs(view: JobView, held: Held, report: WorkerReport) -> int:
    operator = view.plan.operators[view.compiled.locations[held[0]].operator]
    return sum(report.statistics.operators[part.name].schedules for part in operator.stages or (operator,))


def _is_late(view: JobView, held: Held, report: WorkerReport) -> bool:
    location, time, worker = held
    at = view.compiled.locations[location]
    plan = view.plan.operators[at.operator]
    ports = [Target(at.operator, port) for port in range(len(plan.shape.inputs))]
    if not isinstance(at, Source) or not ports or at.operator in report.asked:
        return False
    nestings = view.compiled.graph.nesting
    if any(nestings(port) != nestings(at) for port in ports):
        return False
    return not any(
        frontier.less_equal(time)
        for port in ports
        for frontier in [view.frontier(port), *([view.heard(worker, port)] if plan.notify else [])]
    )
