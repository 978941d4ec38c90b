"""Collections used in a wrong way say which operator, why, and what to do; loops have what they promise."""

from collections import Counter
from decimal import Decimal
from itertools import permutations, product
from math import fsum
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tidewheel as tw
from tests.kit.messages import raises
from tidewheel.runtime.description.dataflow_description import description_of

Batches = list[tuple[int, Any]]


def result_of(batches: Batches, describe: Any, workers: int = 2) -> dict[Any, int]:
    """Return the records of a collection in the end, with their counts."""
    flow = tw.Dataflow("test")
    describe(flow.source("records", tw.IterableSource([batches])).as_collection()).changes().capture("changes")
    with tw.run(flow, workers=workers, engine="local") as job:
        job.wait(60)
        found: Counter[Any] = Counter()
        for one in job.captured("changes"):
            for record, count in one.batch:
                found[record] += count
    return {record: count for record, count in found.items() if count}


def twice_joined(pairs: tw.Collection, times: int) -> tw.Collection:
    """Join pairs with themselves so often, each time all that come out."""
    for _ in range(times):
        pairs = pairs.join(pairs, lambda key, one, other: (0, 0))
    return pairs


@pytest.mark.parametrize(
    ("describe", "said"),
    [
        (lambda c: c.join(c, name="meet"), r"operator 'meet' takes pairs \(key, value\), and 7 is none: make pairs"),
        (lambda c: c.reduce_min(name="least"), r"operator 'least' takes pairs .* and 7 is none"),
        (lambda c: c.map(lambda n: ([n], 1)).distinct(name="each"), r"\[\d\] of type list cannot be a key"),
        (lambda c: c.map(lambda n: [n], name="listed"), r"a record of 'listed' .*\[\d\] of type list cannot be a key"),
        (lambda c: c.map(lambda n: (n, {})).reduce_max(), "has to be hashable all through, and {} is not"),
        (lambda c: c.map(lambda n: n[:1], columns=True), "returned 1 values for 2 records"),
        (lambda c: c.map(lambda n: (n, n, n), columns=True), "returned 3 columns"),
        (lambda c: c.iterate(lambda i: i.enter_at(lambda n: "x")), r"enter_at\(\) is to return rounds, .* not \['x'\]"),
        (
            lambda c: c.map(lambda n: (0, n if n < 8 else "x")).reduce_min(),
            "values of key 0 have no order, .*: give the values .* one type",
        ),
        (lambda c: c.threshold(lambda n, count: count / 2), r"threshold\(\) is to return a whole number, not 0\.5"),
        (lambda c: c.threshold(lambda n, count: n / 0), r"ZeroDivisionError: .* \(record \([78], 1\)\)"),
        (lambda c: c.map(lambda n: (n, n)).reduce(lambda k, v: [1 / 0]), r"Zero.* \(record \([78], \[[78]\]\)\)"),
        (
            lambda c: c.map(lambda n: (n, n)).reduce(lambda k, v: "ab"),
            r"return a list of results, \[result\], not 'ab'",
        ),
        (lambda c: c.map(lambda n: (n, n)).reduce(lambda k, v: 7), r"return a list of results, \[result\], not 7"),
        (lambda c: c.map(lambda n: (n, n)).join(c.map(lambda n: (n, n)), lambda k, a, b: a / 0), r"\(record \([78],"),
        (lambda c: c.map(lambda n: (n, None)).reduce_sum(), r"added up, .*: leave out .*\(record \([78], \[None\]"),
        (
            lambda c: c.map(lambda n: (n, (n, n))).reduce_sum(),
            "cannot be added up, .* type tuple is no number: give the",
        ),
        (lambda c: c.map(lambda n: (n, 10**400)).reduce_mean(), r"too large for a float \(record \([78], \[1000"),
        (lambda c: c.iterate(lambda i: i.concat(i)), "feedback: sums' .* count of [78] needs more .* distinct"),
        (lambda c: often(c, -(2**63)).negate(), "'negate' .* count of [78] needs more than 64 bits"),
        (lambda c: often(c, 2**63), "'threshold' .* count of [78] needs more than 64 bits"),
        (lambda c: often(c).map(lambda n: "x").distinct(), "'distinct' .* count of 'x' needs more than 64 bits"),
        (lambda c: twice_joined(c.map(lambda n: (0, n)), 7), r"join.* count of \(0, \(0, 0\)\) needs more .* distinct"),
        (lambda c: c.filter(lambda n: n + 1, columns=True), "return an array with True or False for each of 2 records"),
    ],
)
def test_records_that_do_not_fit_fail_the_job(describe: Any, said: str) -> None:
    with pytest.raises(tw.JobError, match=said):
        result_of([(0, [7, 8])], describe)


def test_arguments_that_cannot_be_used_are_refused() -> None:
    """When the dataflow is described, and so that it stays as it was."""
    flow, other = tw.Dataflow("test"), tw.Dataflow("other")
    numbers: Any = flow.input("a").as_collection()
    others = other.input("a").as_collection()
    loops: list[tw.Collection] = []

    def keep(inner: tw.Collection) -> tw.Collection:
        loops.append(inner)
        return inner

    numbers.iterate(keep)
    numbers.iterate(keep)
    size = flow._description.size
    for call, said in (
        (
            lambda: numbers.join(flow.input("b")),
            r"operator 'join' takes a collection, from as_collection\(\), not <",
        ),
        (lambda: numbers.concat(others), "cannot read a stream of dataflow 'other': publish it there"),
        (lambda: numbers.join(loops[0]), r"'join' reads what is within iterate\(\) from outside of it: use its result"),
        (loops[1].changes, "from outside of it: use its result"),
        (lambda: numbers.map(7), "operator 'map' takes a function, not 7"),
        (lambda: numbers.top_k(0), "k is a whole number, 1 or more, not 0"),
        (lambda: numbers.iterate(lambda inner: 7), "the body of 'iterate' must return a collection, not 7"),
        (lambda: numbers.iterate(lambda one, two: one, numbers), "must return a tuple of 2 collections"),
        (lambda: numbers.iterate(keep, max_rounds=0), "max_rounds is a whole number, 1 or more"),
        (lambda: loops[0].concat(loops[1]), "from outside of it: use its result"),
        (lambda: numbers.iterate(lambda inner: loops[0]), "must return a collection of scope"),
        (lambda: numbers.enter_at(len), r"operator 'enter_at' is for loops: call it in the function that iterate"),
        (lambda: numbers.iterate(lambda inner: loops[0].enter_at(len)), "from outside of it: use its result"),
        (lambda: numbers.changes(columns=["diff"]), "columns= has a name for each column, none of them 'diff'"),
    ):
        with pytest.raises(tw.GraphError, match=said):
            call()
    assert flow._description.size == size + 1, "only the input that a test has added"


def often(collection: tw.Collection, count: int = 2**62) -> tw.Collection:
    """Have each record of a collection very often."""
    return collection.threshold(lambda record, _: count)


@pytest.mark.parametrize(
    ("records", "describe", "wanted"),
    [
        ([(1, 1), (1, 3)], lambda c: often(c).reduce_sum(), {(1, 2**64): 1}),
        ([(1, 10), (2, 0)], lambda c: often(c).reduce_sum(), {(1, 10 * 2**62): 1, (2, 0): 1}),
        ([(1, 1), (1, 3)], lambda c: often(c).reduce_mean(), {(1, 2.0): 1}),
        ([(1, 1.0), (1, 3.0)], lambda c: often(c).reduce_mean(), {(1, 2.0): 1}),
        ([(1, value) for value in range(1, 6)], lambda c: often(c).top_k(1), {(1, 5): 1}),
        ([(1, value) for value in range(1, 6)], lambda c: often(c, 2).top_k(3), {(1, 5): 2, (1, 4): 1}),
        ([(1, 2**53 + 1), (1, 2**31), (1, -(2**31))], tw.Collection.reduce_mean, {(1, (2**53 + 1) / 3): 1}),
        ([(2, 7), (1, 1e16), (1, 1.0), (1, -1e16), (1, 3.0)], tw.Collection.reduce_sum, {(1, 4.0): 1, (2, 7): 1}),
        ([(1, 0.1), (1, 0.2), (1, 0.3), (1, -0.6)], tw.Collection.reduce_sum, {(1, fsum([0.1, 0.2, 0.3, -0.6])): 1}),
        ([(1, 0.1)] * 3 + [(1, -0.3)], tw.Collection.reduce_mean, {(1, fsum([0.1, 0.1, 0.1, -0.3]) / 4): 1}),
    ],
)
def test_large_numbers_are_exact(records: list[Any], describe: Any, wanted: dict[Any, int]) -> None:
    """So many that their counts do not add up to 64 bits; whatever the order of arrival, and beside another type."""

    def beside(records: tw.Collection) -> Any:
        other = records.flat_map(lambda record: [(9, Decimal(record[0]))])
        return describe(records.concat(other)).filter(lambda record: record[0] != 9)

    for workers, one in product((1, 2), (records, records[::-1])):
        assert result_of([(0, one)], describe, workers) == wanted
        assert result_of([(0, one)], beside, workers) == wanted


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("describe", [lambda c: c.count(), lambda c: c.top_k(1), lambda c: c.join(c)])
def test_a_count_that_outgrows_64_bits_over_time_names_its_record(describe: Any, workers: int) -> None:
    """Though each of the changes has room; other records are there as well."""
    changes = [(epoch, [(("a", "x"), 2**62), (("b", epoch), 1)]) for epoch in range(3)]
    flow = tw.Dataflow("test")
    describe(flow.source("changes", tw.IterableSource([changes])).as_collection(diff=True)).changes().capture("made")
    with (
        raises(tw.JobError),
        tw.run(flow, workers=workers, engine="local") as job,
    ):
        job.wait(60)


def test_a_count_from_outside_has_64_bits() -> None:
    flow = tw.Dataflow("test")
    flow.source("changes", tw.IterableSource([[(0, [("a", 1), ("b", 2**63)])]])).as_collection(diff=True).changes()
    with (
        raises(tw.JobError),
        tw.run(flow, engine="local") as job,
    ):
        job.wait(60)


def test_a_threshold_may_be_a_condition() -> None:
    assert result_of([(0, [7, 7, 8])], lambda c: c.threshold(lambda n, count: count > 1)) == {7: 1}


def test_a_collection_says_how_it_becomes_a_stream() -> None:
    numbers: Any = tw.Dataflow("test").input("a").as_collection()
    with raises(AttributeError):
        numbers.capture("all")
    with raises(AttributeError):
        numbers.chang()


def test_a_loop_has_at_most_so_many_rounds() -> None:
    """The body is applied so often and no more, though nothing has settled."""
    for rounds in (1, 2, 5):
        found = result_of(
            [(0, [0]), (1, [100])], lambda c, n=rounds: c.iterate(lambda i: i.map(lambda x: x + 1), max_rounds=n)
        )
        assert found == {rounds: 1, 100 + rounds: 1}


def test_a_loop_goes_on_until_all_records_have_entered() -> None:
    """Rounds in which nothing happens are skipped, however many; a record leaves in the round in which it enters."""

    def reached(c: tw.Collection) -> tw.Collection:
        def body(inner: tw.Collection) -> tw.Collection:
            steps = inner.map(lambda n: n + 1).filter(lambda n: n % 4)
            return steps.concat(c.enter_at(lambda n: n * 10**12)).distinct()

        return c.empty().iterate(body)

    assert result_of([(0, [0, 5, 8]), (1, [12])], reached) == dict.fromkeys({*range(16)} - {4}, 1)


def test_a_record_whose_round_never_comes_never_enters() -> None:
    found = result_of([(0, [0, 1, 2])], lambda c: c.empty().iterate(lambda i: c.enter_at(lambda n: n), max_rounds=2))
    assert found == {0: 1, 1: 1}


def test_a_body_that_changes_nothing_ends() -> None:
    assert result_of([(0, ["a", "a"])], lambda c: c.iterate(lambda inner: inner)) == {"a": 2}


def test_columns_of_objects_can_be_computed_with() -> None:
    """A column of texts is an array of Python objects."""
    made = lambda c: c.map(lambda words: (words + "!", 1), columns=True)  # noqa: E731
    assert result_of([(0, ["a", "b"])], made) == {("a!", 1): 1, ("b!", 1): 1}


@pytest.mark.parametrize(
    "values",
    [
        ("tea", 3),
        ("tea", 2.5),
        (2**53 + 1, 0.5),
        (2**64 - 1, 1),
        ("a\0", "b"),
        (b"a\0", b"b"),
        (b"a", "b"),
        (True, "x"),
        (None, 1),
        ((1, 2), (3, 4)),
        (np.int8(1), np.bool_(True)),
    ],
)
def test_columns_of_python_values_keep_them(values: tuple[Any, ...]) -> None:
    """In lists and tuples, and one value for all; each is found again when it is removed, also in another batch."""
    texts = {str(value): repr(value.item() if isinstance(value, np.generic) else value) for value in values}
    batches = [(0, [(str(value), (value, 0)) for value in values])]

    def made(batches: Batches, function: Any) -> dict[Any, int]:
        typed: Any = lambda record: (record[0], repr(record[1]))  # noqa: E731
        return result_of(batches, lambda c: c.map(function, columns=True).map(typed))

    wanted = dict.fromkeys(texts.items(), 1)
    assert made(batches, lambda key, rows: (key, [row[0] for row in rows])) == wanted
    assert made(batches, lambda key, rows: (key, tuple(row[0] for row in rows))) == wanted
    for value in values:
        if not isinstance(value, tuple):  # which is a column
            one = made([(0, ["a", "b"])], lambda records, value=value: (records, value))
            assert one == {(key, texts[str(value)]): 1 for key in "ab"}
    flow = tw.Dataflow("test")
    rows = [(str(value), (value, 0)) for value in values]
    changes = [(0, [(row, 1) for row in rows]), *((epoch, [(row, -1)]) for epoch, row in enumerate(rows, 1))]
    collection = flow.source("rows", tw.IterableSource([changes])).as_collection(diff=True)
    columns = collection.map(lambda key, found: (key, *zip(*found, strict=True)), columns=["key", "value", "other"])
    columns.changes().capture("changes")
    with tw.run(flow, engine="local") as job:
        job.wait(60)
        left: Counter[Any] = Counter()
        for captured in job.captured("changes"):
            for record, count in captured.batch:
                left[record] += count
    assert not any(left.values())


LARGE: list[Batches] = [
    [(0, [(1, 2)]), (1, [(3, 2**31)])],
    [(0, [(1, 0.5)])],
    [(0, [("a", None)]), (1, [(1, 2)]), (2, [(1, (2,))])],
]


@pytest.mark.parametrize("batches", LARGE)
@pytest.mark.parametrize(
    "describe",
    [
        tw.Collection.distinct,
        lambda c: c.threshold(lambda record, count: count),
        lambda c: c.concat(c.map(lambda record: "no pair")).filter(lambda record: record != "no pair"),
        lambda c: c.concat(c.map(lambda record: "no pair")).consolidate().filter(lambda record: record != "no pair"),
    ],
)
def test_functions_of_columns_get_the_keys_and_values_of_pairs(batches: Batches, describe: Any) -> None:
    """Whatever the pairs are, also behind operators that compare whole records, and where others were among them."""
    pairs = [pair for _, batch in batches for pair in batch]

    def late(collection: tw.Collection) -> tw.Collection:
        def body(inner: tw.Collection) -> tw.Collection:
            entered = describe(collection).enter_at(lambda key, value: np.full(len(key), 3), columns=True)
            return inner.concat(entered).distinct()

        return collection.empty().iterate(body)

    for workers in (1, 2):
        made = result_of(batches, lambda c: describe(c).map(lambda *columns: columns[::-1], columns=True), workers)
        assert made == {(value, key): 1 for key, value in pairs}
        kept = result_of(
            batches, lambda c: describe(c).filter(lambda k, v: np.ones(len(k), bool), columns=True), workers
        )
        assert kept == dict.fromkeys(pairs, 1)
        assert result_of(batches, late, workers) == dict.fromkeys(pairs, 1)


def test_values_of_any_kind_are_reduced() -> None:
    """Also where the first epoch had only numbers, and the next one has not."""
    batches = [(0, [("a", 3), ("b", 1)]), (1, [("a", 2.5), (None, "x")]), (2, [(("t", 1), (2, "y"))])]
    assert result_of(batches, lambda c: c.reduce_min()) == {
        ("a", 2.5): 1,
        ("b", 1): 1,
        (None, "x"): 1,
        (("t", 1), (2, "y")): 1,
    }


def test_the_result_of_an_inner_loop_goes_round_the_outer() -> None:
    """Reachability in steps of closures: each round of the outer loop closes over one more set of edges."""
    edges = [(1, 2), (2, 3), (3, 1), (4, 5)]

    def closed(c: tw.Collection) -> tw.Collection:
        def inner(v: tw.Collection, outer: tw.Collection) -> tw.Collection:
            steps = v.map(lambda p: (p[1], p[0])).join(outer, lambda key, start, end: (start, end))
            return steps.concat(v).distinct()

        return c.distinct().iterate(lambda outer: outer.iterate(lambda v: inner(v, outer)))  # type: ignore[no-any-return]

    expected = {(a, b): 1 for a in (1, 2, 3) for b in (1, 2, 3)} | {(4, 5): 1}
    assert result_of([(0, edges)], closed) == expected


def test_collections_enter_a_loop_only_where_an_operator_reads_them(caplog: pytest.LogCaptureFixture) -> None:
    """A program with a loop in a loop logs no loose ends."""

    def body(c: tw.Collection) -> tw.Collection:
        def outer(one: tw.Collection) -> tw.Collection:
            def inner(two: tw.Collection) -> tw.Collection:
                return two.concat(one, c).distinct().antijoin(c.map(lambda n: n[0] + 1))

            return one.iterate(inner)

        return c.iterate(outer)

    assert result_of([(0, [(1, 2), (2, 3)])], body) == {(1, 2): 1}
    assert "nothing reads" not in caplog.text


def test_nan_within_values_is_greater_than_all_numbers() -> None:
    """Whatever the order in which they come."""
    values = [(1.0, 0.5), (float("nan"), 1.0), (1.0, -2.0), (1.0, float("nan")), (2, 0.0)]
    for turn in range(len(values)):
        records = [(0, value) for value in values[turn:] + values[:turn]]
        assert result_of([(0, records)], lambda c: c.reduce_min()) == {(0, (1.0, -2.0)): 1}
        (greatest,) = result_of([(0, records)], lambda c: c.reduce_max().map(lambda record: record[1][1]))
        assert greatest == 1.0
        found = result_of([(0, records)], lambda c: c.top_k(3, greatest=False).map(lambda record: str(record[1])))
        assert sorted(found) == ["(1.0, -2.0)", "(1.0, 0.5)", "(1.0, nan)"]


@pytest.mark.parametrize(
    ("describe", "taken"),
    [
        (tw.Collection.reduce_max, {3}),
        (tw.Collection.reduce_min, {1}),
        (lambda c: c.top_k(2), {3, 2}),
        (lambda c: c.top_k(2, greatest=False), {1, 2}),
    ],
)
def test_columns_behind_nan_decide(describe: Any, taken: set[int]) -> None:
    """In rows of columns as in tuples, whatever the order in which they come, and which object each NaN is."""
    rows = [(float("nan"), 1), (float("nan"), 3), (float("nan"), 2)]

    def days(collection: tw.Collection) -> Any:
        return describe(collection).map(lambda record: record[1][1])

    for some in permutations(rows):
        assert set(result_of([(0, [("a", row) for row in some])], days)) == taken
        table = pa.table({"k": ["a"] * 3, "price": [price for price, _ in some], "day": [day for _, day in some]})
        flow = tw.Dataflow("test")
        source = flow.source("rows", tw.IterableSource([[(0, table)]]))
        days(source.as_collection(columns=table.column_names)).changes().capture("days")
        with tw.run(flow, engine="local") as job:
            job.wait(60)
            assert {day for one in job.captured("days") for day, _ in one.batch} == taken


def arrangements(flow: tw.Dataflow) -> list[str]:
    """Return the names of the operators of a dataflow that arrange a collection by key."""
    return [one.name for one in description_of(flow).operators if ": by key" in one.name]


@pytest.mark.parametrize(
    ("left", "right", "said"),
    [
        ([1, 2], ["1", "2"], "as 1 is of type int and '1' is of type str: convert the keys of one side before"),
        ([(1, "a")], [("1", "a")], "as (1, 'a') is of type tuple and ('1', 'a') is of type tuple"),
        (["a"], [b"a"], "as 'a' is of type str and b'a' is of type bytes"),
        ([1, "a"], [2.5], ""),
        ([True, None], [Decimal(2), None], ""),
        ([None], [1], ""),
        ([], [1], ""),
    ],
)
def test_joins_of_keys_that_cannot_be_equal_warn(
    left: list[Any], right: list[Any], said: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Once, by the name of the operator; an antijoin as well, which keeps all of them."""
    joins: list[Any] = [
        lambda one, other: one.join(other, name="meet"),
        lambda one, other: one.antijoin(other.map(lambda record: record[0]), name="meet"),
    ]
    for describe in joins:
        caplog.clear()
        flow = tw.Dataflow("test")
        sides = []
        for number, keys in enumerate((left, right)):
            changes = [(epoch, [(key, epoch) for key in keys]) for epoch in range(3) if keys]
            sides.append(flow.source(f"side {number}", tw.IterableSource([changes])).as_collection())
        describe(*sides).changes().capture("made")
        with tw.run(flow, engine="local") as job:
            job.wait(60)
        warnings = [one.getMessage() for one in caplog.records if "no key of one side" in one.getMessage()]
        assert len(warnings) == bool(said)
        for one in warnings:
            assert one.startswith("operator 'meet")
            assert said in one


@pytest.mark.parametrize(
    ("describe", "operator"),
    [
        (lambda mine: mine.join(mine.map(lambda _: (1, 2))), "join: by key"),
        (lambda mine: mine.reduce_min(), "reduce_min"),
    ],
)
def test_a_record_that_cannot_be_hashed_is_shown_with_its_sender(describe: Any, operator: str) -> None:
    """The value fails where it is arranged, which is in an operator that the user may never have named."""

    def made(collection: tw.Collection) -> Any:
        return describe(collection.map(lambda n: (n, ["x" * 100]), name="mine"))

    with pytest.raises(tw.JobError, match=rf"'{operator}' could not arrange a record of 'mine' on worker") as caught:
        result_of([(0, [7])], made)
    assert "(record (7, ['xxx" in str(caught.value)
    assert "x" * 50 not in str(caught.value).partition("(record")[2]
    assert caught.value.operator == operator


def test_joins_of_a_collection_share_its_arrangement() -> None:
    """In a loop, in a loop within it and outside, on either side, and with itself."""
    flow = tw.Dataflow("shared")
    edges = flow.input("edges").as_collection()
    nodes = edges.map(lambda edge: (edge[0], edge[0])).distinct()

    def least(labels: tw.Collection) -> tw.Collection:
        def inner(lower: tw.Collection) -> tw.Collection:
            return lower.join(edges, lambda _, label, end: (end, label)).concat(labels).reduce_min()

        return labels.iterate(inner).join(edges, lambda _, label, end: (end, label)).concat(nodes).reduce_min()

    components = nodes.iterate(least)
    ends = edges.join(components, lambda _, end, label: (end, label))
    twice = edges.join(edges, lambda _, one, other: (one, other))
    for name, made in {"components": components, "ends": ends, "twice": twice}.items():
        made.changes().capture(name)
    assert arrangements(flow) == [
        "iterate/iterate/join: by key",  # of the inner variable
        "join: by key",  # of the edges
        "iterate/join: by key",  # of the result of the inner loop
        "join: by key-2",  # of the components
    ]
    with tw.run(flow, workers=2, engine="local") as job:
        job.input("edges").send([(1, 2), (2, 1), (3, 2), (4, 4)])
        job.input("edges").close()
        job.wait(10)
        found = {name: sorted(pair for one in job.captured(name) for pair in one.batch) for name in job.plan.captures}
    assert found["components"] == [((1, 1), 1), ((2, 1), 1), ((3, 3), 1), ((4, 4), 1)]
    assert found["ends"] == [((1, 1), 1), ((2, 1), 1), ((2, 3), 1), ((4, 4), 1)]
    assert found["twice"] == [((1, 1), 1), ((2, 2), 2), ((4, 4), 1)]


def exchanges(flow: tw.Dataflow) -> list[str]:
    """Return the names of the operators of a dataflow that get updates from other workers."""
    operators = description_of(flow).operators
    return [one.name for one in operators if any(pact and pact.beside({}, 0) for pact in one.pacts)]


def test_updates_are_exchanged_once() -> None:
    """A worker has the updates of its keys behind a reduction, and behind the loop that this ends."""
    flow = tw.Dataflow("owned")
    edges = flow.input("edges").as_collection()
    least = edges.empty().iterate(lambda ends: ends.concat(edges).reduce_min())
    least.join(least.reduce_max(), lambda _, one, other: (one, other)).changes().capture("pairs")
    least.changes().capture("least")
    edges.distinct().changes().capture("distinct")
    edges.distinct(name="ends").map(lambda edge: edge[::-1]).reduce_min().changes().capture("greatest")
    assert exchanges(flow) == ["iterate/reduce_min", "changes: sums", "distinct", "reduce_min"]
    with tw.run(flow, workers=2, engine="local") as job:
        job.input("edges").send([(one, number) for one in range(50) for number in (one, 2 * one)])
        job.input("edges").close()
        job.wait(10)
        found = {name: sorted(pair for one in job.captured(name) for pair in one.batch) for name in job.plan.captures}
    assert found["pairs"] == found["least"] == [((one, one), 1) for one in range(50)]
    assert len(found["distinct"]) == 99


def test_reductions_and_look_ups_share_the_arrangement_of_joins() -> None:
    """The first reduction arranges a collection, unless a join or look-ups have done so before; in a loop as well."""
    flow = tw.Dataflow("shared")
    edges = flow.input("edges").as_collection().map(lambda edge: edge, name="edges")

    def body(labels: tw.Collection) -> tw.Collection:
        greatest = labels.reduce_max()
        return labels.join(edges, lambda _, label, end: (end, label)).concat(greatest, labels).distinct()

    results = {
        "closure": edges.iterate(body).lookup("closure").reduce_max(),
        "counts": edges.count().semijoin(edges),
        "least": edges.reduce_min().join(edges),
        "sums": edges.lookup("edges").reduce_sum(),
    }
    for name, made in results.items():
        made.changes().capture(name)
    with tw.run(flow, workers=2, engine="local") as job:
        job.input("edges").send([(1, 2), (1, 4), (2, 1), (4, 4)])
        job.input("edges").close()
        job.wait(10)
        found = {name: sorted(pair for one in job.captured(name) for pair, _ in one.batch) for name in results}
        assert job.lookup("edges", 1).counts == {1: {2: 1, 4: 1}}
        assert sorted(job.lookup("closure", 1).values) == [1, 2, 4]
        shared = job._cores[0].shared  # type: ignore[attr-defined]
        arranged = {name: sorted(map(str, one.spines)) for name, one in shared.items()}
    assert arranged == {
        "join: by key": ["0", "reduce_min", "reduce_sum"],  # of the edges
        "iterate/reduce_max": ["0", "iterate/reduce_max"],  # of the variable
        "iterate/distinct": ["0", "iterate/distinct"],
        "lookup closure: by key": ["0", "reduce_max"],
        "count": ["0", "count", "semijoin: keys"],  # of the edges by record
        "semijoin: by key": ["0"],  # of the counts
        "semijoin: by key-2": ["0"],  # of the distinct edges
        "join: by key-2": ["0"],  # of the least ends
    }
    assert found == {
        "closure": [(1, 4), (2, 4), (4, 4)],
        "counts": [((1, 2), 1), ((1, 4), 1), ((2, 1), 1), ((4, 4), 1)],
        "least": [(1, (2, 2)), (1, (2, 4)), (2, (1, 1)), (4, (4, 4))],
        "sums": [(1, 6), (2, 1), (4, 4)],
    }


def test_semijoins_by_the_same_keys_share_these() -> None:
    """They are made distinct once."""
    flow = tw.Dataflow("shared")
    pairs, keys = (flow.input(name).as_collection() for name in ("pairs", "keys"))
    turned = pairs.semijoin(keys).map(lambda pair: (pair[1], pair[0]))
    turned.semijoin(keys).antijoin(keys).changes().capture("none")
    names = [one.name for one in description_of(flow).operators]
    assert [name for name in names if name.endswith(": keys")] == ["semijoin: keys"]


def test_an_arrangement_that_was_taken_back_is_made_again() -> None:
    """A body that fails takes back what it has added, and the next one asks again."""
    flow = tw.Dataflow("again")
    edges = flow.input("edges").as_collection()

    def fails(labels: tw.Collection) -> tw.Collection:
        labels.join(edges)
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        edges.iterate(fails)
    assert arrangements(flow) == []
    edges.map(lambda edge: edge).semijoin(edges.map(lambda edge: edge[0])).changes().capture("others")
    edges.join(edges, lambda _, one, other: (one, other)).changes().capture("twice")
    with tw.run(flow, engine="local") as job:
        job.input("edges").send([(1, 2)])
        job.input("edges").close()
        job.wait(10)
        assert [one.batch for one in job.captured("twice")] == [[((2, 2), 1)]]
