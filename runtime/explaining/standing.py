"""The progress of a job as one line of text; no I/O."""

from collections.abc import Mapping
from dataclasses import dataclass

from tidewheel.display.figures import age_text, count_text, epoch_of, plain
from tidewheel.progress import Antichain
from tidewheel.runtime.explaining.explainer import Explainer, explicable
from tidewheel.runtime.explaining.explanation import Explanation, busy_text
from tidewheel.runtime.explaining.job_view import JobView
from tidewheel.runtime.inputs.feed import Feed

_BAR = 20


@dataclass(frozen=True, slots=True)
class Standing:
    """The progress of a job at one moment.

    Attributes:
        records: the number of records that inputs and sources have sent.
        newest: the newest epoch of the inputs; None if the job also has sources.
        waits_for: in words, what holds back the slowest place; empty if a frontier has moved.
    """

    at_s: float
    records: int = 0
    frontiers: Mapping[str, Antichain] | None = None
    newest: int | None = None
    waits_for: str = ""

    @property
    def epoch(self) -> int | None:
        """The earliest incomplete epoch; None if there is none, or times are not whole numbers."""
        epochs = [epoch_of(repr(time)) for frontier in (self.frontiers or {}).values() for time in frontier]
        return min((epoch for epoch in epochs if epoch is not None), default=None)


def standing_of(view: JobView, feed: Feed, explainer: Explainer, before: Standing | None, at_s: float) -> Standing:
    """Return the progress of a job; ask ``explainer`` only if nothing has moved since ``before``."""
    operators = view.statistics().operators
    first = [operator for operator in view.plan.operators if operator.is_source]
    frontiers = {name: view.frontier(place) for name, place in explicable(view.plan).items()}
    behind = [name for name, frontier in frontiers.items() if len(frontier)]
    waits_for = ""
    if before is not None and before.frontiers == frontiers and behind:
        slowest = min(behind, key=lambda name: [epoch_of(repr(time)) or 0 for time in frontiers[name]])
        waits_for = _cause(explainer.explain(slowest))
    return Standing(
        at_s,
        sum(operators[one.name].records_out for one in first if one.name in operators),
        frontiers,
        _newest(feed) if len(first) == len(view.plan.inputs) else None,
        waits_for,
    )


def _newest(feed: Feed) -> int | None:
    positions = [position for fed in feed.inputs.values() for position in fed.positions.values()]
    epochs = [epoch_of(repr(position.time)) for position in positions]
    return max((epoch for epoch in epochs if epoch is not None), default=None)


def _cause(explanation: Explanation) -> str:
    if explanation.busy:
        return busy_text(explanation.busy[0])
    return explanation.holders[0].what if explanation.holders else ""


def line_of(name: str, first: Standing, before: Standing | None, now: Standing) -> str:
    """Return one line: a bar if the end is known, the epoch, the records, their rate, and what the job waits for.

    Args:
        name: the name of the job.
        first: the progress when the wait began.
        before: the progress a moment ago; None if unknown.
        now: the progress now.

    >>> began, now = Standing(0.0, 0), Standing(4.0, 8000, newest=9)
    >>> line_of("words", began, None, now)
    'words: 8.0k records, 4 s'
    """
    parts = []
    if now.epoch is not None:
        end = now.newest
        parts.append(f"epoch {now.epoch}" if end is None or end < now.epoch else f"epoch {now.epoch} of {end}")
        if end is not None and first.epoch is not None and end >= first.epoch:
            share = min(1.0, max(0.0, (now.epoch - first.epoch) / (end + 1 - first.epoch)))
            done = int(share * _BAR)
            parts[0] = f"[{'#' * done}{'.' * (_BAR - done)}] {parts[0]}"
    if now.records:
        parts.append(f"{count_text(now.records)} records")
    if before is not None and now.at_s > before.at_s and now.records > before.records:
        parts.append(f"{count_text((now.records - before.records) / (now.at_s - before.at_s))}/s")
    parts.append(age_text(now.at_s - first.at_s))
    waits = f"; waits: {plain(now.waits_for)}" if now.waits_for else ""
    return f"{plain(name)}: {', '.join(parts)}{waits}"
