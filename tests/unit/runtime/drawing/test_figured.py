"""A drawing that also says what a job has done."""

import tidewheel as tw
from tests.kit.runtime.stuck_flows import deploy
from tidewheel.runtime.description.dataflow_description import description_of
from tidewheel.runtime.drawing.figured import with_figures
from tidewheel.runtime.messages.statistics import OperatorStatistics


def test_each_operator_says_what_it_has_done() -> None:
    """An input receives nothing, and an operator without outputs sends nothing."""
    flow = tw.Dataflow("words")
    flow.input("lines").flat_map(str.split).exchange(str.lower).capture("words")
    with deploy(flow) as job:
        job.input("lines").send(["a b"] * 1000)
        job.input("lines").close()
        job.wait(10.0)
        figures = job.statistics().operators
    outline = with_figures(description_of(flow, "test").outline(), figures)
    assert [operator.marks[-1] for operator in outline.operators] == [
        "1.0k out, ended",
        "1.0k in, 2.0k out, ended",
        "2.0k in, 2.0k out, ended",
        "2.0k in, ended",
    ]


def test_an_operator_without_figures_is_drawn_as_before() -> None:
    """Its worker may not have answered."""
    flow = tw.Dataflow("words")
    flow.input("lines").map(str).capture("words")
    plain = description_of(flow, "test").outline()
    figured = with_figures(plain, {"map": OperatorStatistics(records_in=1, frontier=(3, 4))})
    assert [operator.marks for operator in figured.operators] == [(), ("1 in, 0 out, at 3, 4",), ()]
