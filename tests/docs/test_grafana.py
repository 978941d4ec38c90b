"""The dashboard for Grafana asks for metrics that there are, by labels that they have."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.packaging.repository import ROOT
from tidewheel.console.metrics.job_metrics import METRICS, labels_of

DASHBOARD = json.loads((ROOT / "docs" / "grafana" / "tidewheel.json").read_text(encoding="utf-8"))
BY_NAME = {metric.name: metric for metric in METRICS}


def panels() -> Iterator[dict[str, Any]]:
    """Yield the panels that show something."""
    yield from (panel for panel in DASHBOARD["panels"] if panel["type"] != "row")


def expressions() -> list[tuple[str, str]]:
    """Return what each panel asks for, and its legend."""
    return [(target["expr"], target["legendFormat"]) for panel in panels() for target in panel["targets"]]


@pytest.mark.parametrize(("expression", "legend"), expressions())
def test_a_panel_asks_for_metrics_that_there_are(expression: str, legend: str) -> None:
    """A counter only for its rate, and a gauge for its value; each label in it, and in the legend, is one of them."""
    asked = re.findall(r"tidewheel_\w+", expression)
    assert asked
    assert [name for name in asked if name not in BY_NAME] == []
    labels = {label for name in asked for label in labels_of(BY_NAME[name])}
    grouped = re.findall(r"\b(?:by|on|ignoring) \(([^)]*)\)", expression)
    used = {label.strip() for group in grouped for label in group.split(",")}
    used |= set(re.findall(r"(\w+)=~?\"", expression)) | set(re.findall(r"\{\{(\w+)\}\}", legend))
    assert used <= labels
    for name in asked:
        is_rated = re.search(rf"\b(rate|increase)\({name}\{{", expression) is not None
        assert is_rated == BY_NAME[name].is_counter, name
    assert expression.count("(") == expression.count(")")
    assert expression.count("{") == expression.count("}")


def test_what_the_legend_shows_is_not_summed_up() -> None:
    """Else Grafana would show an empty name."""
    for expression, legend in expressions():
        outermost = re.findall(r"by \(([^)]*)\)", expression)
        shown = set(re.findall(r"\{\{(\w+)\}\}", legend))
        assert all(shown <= {label.strip() for label in group.split(",")} for group in outermost[:1]), expression


def test_each_kind_of_thing_has_a_panel() -> None:
    """Nothing that a job tells of is left to be found by chance."""
    asked = {
        BY_NAME[name].section for expression, _ in expressions() for name in re.findall(r"tidewheel_\w+", expression)
    }
    variables = {BY_NAME[name].section for name in re.findall(r"tidewheel_\w+", json.dumps(DASHBOARD["templating"]))}
    assert asked | variables == {metric.section for metric in METRICS}


def test_panels_do_not_overlap() -> None:
    """Each has a title and a place of its own on 24 columns."""
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        cells = {(at["x"] + i, at["y"] + j) for i in range(at["w"]) for j in range(at["h"])}
        assert panel["title"]
        assert at["x"] + at["w"] <= 24
        assert not cells & taken
        taken |= cells
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
