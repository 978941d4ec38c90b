"""A drawing of a dataflow with the figures of a job, such as counts and rates."""

from collections.abc import Mapping
from dataclasses import replace

from tidewheel.display.figures import count_text
from tidewheel.runtime.description.outline import OperatorOutline, Outline
from tidewheel.runtime.messages.statistics import OperatorStatistics


def with_figures(outline: Outline, figures: Mapping[str, OperatorStatistics]) -> Outline:
    operators = (
        replace(operator, marks=(*operator.marks, _said(operator, figures[operator.name])))
        if operator.name in figures
        else operator
        for operator in outline.operators
    )
    return replace(outline, operators=tuple(operators))


def _said(operator: OperatorOutline, done: OperatorStatistics) -> str:
    received = f"{count_text(done.records_in)} in" if operator.sources else ""
    sent = f"{count_text(done.records_out)} out" if operator.outputs else ""
    dropped = f"{count_text(done.records_dropped)} dropped" if done.records_dropped else ""
    frontier = ", ".join(map(repr, done.frontier))
    return ", ".join(filter(None, (received, sent, dropped, f"at {frontier}" if frontier else "ended")))
