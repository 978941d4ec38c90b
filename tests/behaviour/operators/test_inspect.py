"""The inspect operator."""

import builtins
import pickle
from collections import Counter
from collections.abc import Callable

import cloudpickle
import pytest
from hypothesis import given

import tidewheel as tw
from tests.kit.operators.harness import Case, bags, cases, expected, operator_settings, run
from tidewheel.runtime.description.dataflow_description import description_of


@operator_settings()
@given(cases())
def test_inspect_sees_each_record_once_and_changes_nothing(case: Case) -> None:
    """The function is called for each record; what it returns does not matter, and batches keep their kind."""
    seen: Counter[int] = Counter()

    def look(record: object) -> bool:
        seen[case.kind.number(record)] += 1
        return False

    results = run(lambda stream: stream.inspect(look), case)
    assert bags(results, case.kind) == expected(case.feed)
    assert {type(result.batch) for result in results} <= {type(case.kind.make([]))}
    assert seen == Counter(number for _, numbers in case.feed for number in numbers)


@pytest.mark.parametrize(
    "describe",
    [
        lambda stream: stream.inspect(print),
        lambda stream: stream.inspect_batches(print),
        lambda stream: stream.for_each_epoch(print),
        lambda stream: stream.on_frontier(print),
    ],
)
def test_print_can_be_pickled_though_it_was_replaced(
    describe: Callable[[tw.Stream[int]], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ray's `tqdm_ray` replaces ``print``, which then is no more what a dataflow has that was described before."""
    flow = tw.Dataflow("printing")
    describe(flow.input("numbers", int))
    plan = description_of(flow).plan()
    monkeypatch.setattr(builtins, "print", lambda *values: None)
    assert pickle.loads(cloudpickle.dumps(plan)).name == "printing"


def test_print_prints_by_what_has_replaced_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """So lines do not run into the bars that Ray draws."""
    said: list[object] = []
    flow = tw.Dataflow("printing")
    flow.source("words", tw.RecordSource(["to", "be"])).inspect(print)
    monkeypatch.setattr(builtins, "print", said.append)
    with tw.run(flow, engine="local") as job:
        job.wait()
    assert said == ["to", "be"]
