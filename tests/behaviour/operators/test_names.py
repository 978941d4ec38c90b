"""Every operator of the library takes ``name=``, and all that shows operators shows it."""

from collections.abc import Callable
from typing import Any

import pyarrow.compute as pc
import pytest

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.operators.operator_case import OperatorCase
from tests.kit.operators.operator_table import TABLE
from tidewheel.runtime.description.dataflow_description import description_of

NAMED_OTHERWISE = {"probe", "capture", "unary", "binary", "iterate", "substreams", "group_by", "ignore"} | {
    "Collection.iterate",
    "Collection.lookup",
}
"""Their first argument is a name, or, for `iterate`, its ``name``; `group_by` adds nothing before `aggregate`, and
`ignore` adds nothing."""


def first_cases() -> list[OperatorCase]:
    """Return one case of each operator."""
    return list({case.operator: case for case in reversed(TABLE)}.values())


def names(flow: tw.Dataflow) -> list[str]:
    """Return the names of all operators, without their scopes."""
    return [one.name.rpartition("/")[2] for one in description_of(flow).outline().operators]


def calling_it(method: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Return the method, which gives what it adds a name."""
    return lambda stream, *arguments, **options: method(stream, *arguments, name=name, **options)


@pytest.mark.parametrize("case", [one for one in first_cases() if one.operator not in NAMED_OTHERWISE], ids=str)
def test_every_operator_takes_a_name(case: OperatorCase, monkeypatch: pytest.MonkeyPatch) -> None:
    """An operator without ``name=``, or one that drops it, is found here."""
    owner = tw.Collection if case.operator.startswith("Collection.") else tw.Stream
    operator = case.operator.rpartition(".")[2]
    monkeypatch.setattr(owner, operator, calling_it(getattr(owner, operator), "the user's"))
    flow = tw.Dataflow("named")
    case.describe(flow.input("numbers"))
    assert "the user's" in names(flow)
    assert operator not in names(flow)


def test_grouped_rows_loops_and_topics_take_a_name() -> None:
    """What needs more than one call, or begins a stream, is named as well."""
    flow = tw.Dataflow("named")
    rows = flow.input("rows")
    rows.group_by("word", name="per word").aggregate(n="count_all")
    rows.iterate(lambda inner: inner, max_rounds=2, name="rounds")
    flow.feedback(name="again").connect(flow.from_topic("words", name="words"))
    assert {"per word: partial", "per word", "enter", "again", "words"} <= set(names(flow))
    assert "iterate" not in flow.explain()


def test_a_column_and_a_branch_may_be_called_name() -> None:
    """A text is the name of the operator, an expression or a predicate what it always was, in its place."""
    flow = tw.Dataflow("named")
    rows = flow.input("rows")
    ways = rows.branch(small=lambda row: row < 2, name=lambda row: row > 5)
    assert list(ways.__dict__) == ["small", "name", "rest"]
    assert list(rows.branch(small=lambda row: row < 2, name="sizes").__dict__) == ["small", "rest"]
    rows.select(n=pc.field("n"), name=pc.field("word"))
    rows.select(n=pc.field("n"), name="two columns")
    assert names(flow)[1:] == ["branch", "sizes", "select", "two columns"]


def test_statistics_explain_drawings_and_errors_show_the_name() -> None:
    """A user finds the operator by the name that the program gives it."""
    flow = tw.Dataflow("named")
    flow.input("numbers").map(lambda n: 1 // n, name="invert").capture("inverted")
    assert "invert " in flow.explain()
    assert '"invert"' in flow.to_mermaid()
    assert "invert" in flow._repr_html_()
    with tw.run(flow, engine="local") as job, job.input("numbers") as numbers:
        numbers.send([1])
        numbers.close()
        job.wait()
        assert job.statistics().operators["invert"].records_in == 1
    job = tw.run(flow, engine="local")
    job.input("numbers").send([0])
    job.input("numbers").close()
    with raises(tw.JobError):
        job.wait()


def test_a_name_that_comes_again_has_a_number() -> None:
    """A function that adds a named operator can be called twice; every operator has statistics of its own."""
    flow = tw.Dataflow("named")
    numbers = flow.input("numbers")
    for number in range(3):
        numbers.map(abs, name="parse").capture(f"parsed {number}")
    with flow.scope("loop") as loop:
        numbers.enter(loop).map(abs, name="parse").capture("inside")
    assert [one.name for one in description_of(flow).outline().operators if "parse" in one.name] == [
        "parse", "capture parsed 0", "parse-2", "capture parsed 1", "parse-3", "capture parsed 2", "loop/parse"
    ]  # fmt: skip


def test_a_name_is_a_text() -> None:
    """Anything else, also an empty text, is refused where it is given."""
    numbers = tw.Dataflow("named").input("numbers")
    for wrong in ("", None, 7):
        with raises(tw.GraphError):
            numbers.map(abs, name=wrong)  # type: ignore[arg-type]
