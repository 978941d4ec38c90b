"""Tables of one stream whose schemas differ in what makes no difference: every operator takes them as one."""

import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import tidewheel as tw
from tests.kit.operators.harness import ignore_others
from tidewheel.batches.batches import records

OPERATORS: dict[str, Callable[[tw.Stream[Any]], tw.Stream[Any]]] = {
    "sort": lambda stream: stream.sort("n"),
    "distinct": lambda stream: stream.distinct(),
    "deduplicate": lambda stream: stream.deduplicate("n"),
    "top_k": lambda stream: stream.top_k(9, order="n"),
    "join": lambda stream: stream.join(stream, "x", how="outer", suffix="_2"),
    "join_across_epochs": lambda stream: stream.join_across_epochs(stream, "x", suffix="_2"),
    "interval_join": lambda stream: stream.interval_join(stream, "x", at="n", within=(0, 9), suffix="_2").results,
    "merge": lambda stream: stream.merge(stream, by="n"),
    "group_by": lambda stream: stream.group_by("x").aggregate(total=("n", "sum"), mean=("n", "mean")),
    "group_by, distinct": lambda stream: stream.group_by("n").aggregate(kinds=("x", "count_distinct")),
}
DIFFERENCES: dict[str, list[pa.Schema]] = {
    "what may be null": [
        pa.schema([pa.field("n", pa.int64(), nullable), pa.field("x", pa.string(), not nullable)])
        for nullable in (True, False)
    ],
    "indices": [
        pa.schema({"n": pa.int64(), "x": pa.dictionary(kind, pa.string())}) for kind in (pa.int8(), pa.int16())
    ],
    "metadata": [pa.schema({"n": pa.int64(), "x": pa.string()}, metadata={"from": name}) for name in "ab"],
}
ROWS = [[{"n": n, "x": x} for n, x in rows] for rows in ([(1, "a"), (2, "b")], [(3, "b"), (1, "a")], [(4, "c")])]


def run(operator: str, schemas: list[pa.Schema], workers: int) -> list[str]:
    """Return what comes of the rows, in tables with these schemas by turns."""
    flow = tw.Dataflow("test")
    batches = [pa.Table.from_pylist(rows, schemas[place % len(schemas)]) for place, rows in enumerate(ROWS)]
    parts = [[(0, batches[0]), (0, batches[1]), (1, batches[2])], [(0, batches[1]), (0, batches[0])]]
    OPERATORS[operator](flow.source("rows", tw.IterableSource(parts))).capture("results")
    ignore_others(flow)
    with tw.run(flow, workers=workers, engine="local") as job:
        job.wait()
        results = job.captured("results")
    return sorted(f"{result.time} {row}" for result in results for row in records(result.batch))


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("difference", DIFFERENCES)
@pytest.mark.parametrize("operator", OPERATORS)
def test_it_makes_no_difference(operator: str, difference: str, workers: int) -> None:
    """What comes out is what comes of tables that are all alike."""
    expected = run(operator, [pa.schema({"n": pa.int64(), "x": pa.string()})], 1)
    assert expected
    assert run(operator, DIFFERENCES[difference], workers) == expected


ON_VIEWS: dict[str, Callable[[tw.Stream[Any]], tw.Stream[Any]]] = {
    "select": lambda stream: stream.select("x", m=pc.field("n") + 1),
    "filter": lambda stream: stream.filter(pc.field("n") > 1),
    "join": OPERATORS["join"],
    "join_across_epochs": OPERATORS["join_across_epochs"],
    "interval_join": OPERATORS["interval_join"],
    "interval_join, late": lambda stream: stream.interval_join(
        stream, "x", at="n", within=(0, 9), suffix="_2"
    ).late.filter(pc.field("n") > 0),
    "group_by": lambda stream: stream.group_by("x").aggregate(total=("n", "sum"), kinds=("x", "count_distinct")),
    "least": lambda stream: stream.group_by("n").aggregate(least=("x", "min")),
    "exchange": lambda stream: stream.exchange("n"),
    "exchange, sort": lambda stream: stream.exchange("n").sort("n"),
    "sort": OPERATORS["sort"],
    "merge": OPERATORS["merge"],
}


@pytest.mark.parametrize("has_schema", [False, True])
@pytest.mark.parametrize("operator", ON_VIEWS)
def test_views_are_texts(operator: str, has_schema: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of string_view Arrow can take no rows: where it would have to, texts are large_string, in schemas too."""
    describe = ON_VIEWS[operator]
    schemas = [pa.schema({"n": pa.int64(), "x": kind}) for kind in (pa.string_view(), pa.string())]
    made = []

    def on_views(stream: tw.Stream[Any]) -> tw.Stream[Any]:
        made.append(describe(stream.with_schema(schemas[0]) if has_schema else stream))
        return made[-1]

    monkeypatch.setitem(OPERATORS, "views", on_views)
    monkeypatch.setitem(OPERATORS, "texts", describe)
    assert run("views", schemas[:1], 2) == run("texts", schemas[1:], 1)
    if has_schema and not re.search("exchange|sort|merge", operator):
        assert made[-1].schema is not None
        assert pa.string_view() not in made[-1].schema.types
