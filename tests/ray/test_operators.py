"""Every operator on real Ray actors: what comes out is what plain Python says, on any number of workers."""

from collections.abc import Iterator

import pytest

import tidewheel as tw
from tests.kit.operators.harness import LISTS, SAMPLE, TABLES, Kind, send
from tests.kit.operators.operator_case import OperatorCase, plain_bags
from tests.kit.operators.operator_table import STREAMS

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_cluster")]

DEADLINE_S = 120.0


def cases_for(kind: Kind) -> Iterator[tuple[str, OperatorCase]]:
    """Yield the cases that take a kind of batch, each with a name of its own."""
    for number, case in enumerate(STREAMS):
        if kind in case.kinds:
            yield f"{number} {case}", case


def every_operator(kind: Kind) -> tw.Dataflow:
    """Return a dataflow that has each operator once, behind one input."""
    flow = tw.Dataflow(f"every operator on {kind.name}s")
    numbers = flow.input("numbers")
    for name, case in cases_for(kind):
        case.describe(numbers).capture(f"result of {name}")
    numbers.probe("numbers")
    return flow


def wrong_results(job: tw.types.Job, kind: Kind) -> dict[str, object]:
    """Return what came out, and what should have, of each case where they differ."""
    found = {name: plain_bags(job.captured(f"result of {name}")) for name, _ in cases_for(kind)}
    wanted = {name: case.expected(SAMPLE) for name, case in cases_for(kind)}
    return {name: (found[name], wanted[name]) for name in found if found[name] != wanted[name]}


@pytest.mark.parametrize(
    "workers", [pytest.param(1, marks=pytest.mark.long), 2, pytest.param(4, marks=pytest.mark.long)]
)
def test_every_operator_does_on_ray_what_plain_python_does(workers: int) -> None:
    """All cases of all operators at once, for lists and beside them for Arrow tables, several epochs in flight."""
    with tw.run(every_operator(LISTS), workers=workers) as lists:
        tables = lists.add(every_operator(TABLES))
        send(lists, "numbers", SAMPLE, LISTS)
        send(tables, "numbers", SAMPLE, TABLES)
        *_, end = lists.probe("numbers").advances(DEADLINE_S)
        assert len(end) == 0
        lists.wait(DEADLINE_S)
        assert wrong_results(lists, LISTS) == {}
        assert wrong_results(tables, TABLES) == {}
