"""Tests of numbers of operators and edges: those of the picture."""

import re

import tidewheel as tw
from tidewheel.runtime.description.dataflow_description import description_of
from tidewheel.runtime.drawing.picture import svg_of
from tidewheel.runtime.telemetry.graph_numbers import GraphNumbers


def looping() -> tw.Dataflow:
    """Return a dataflow with stages that run as one, inside a loop in a loop, and outside."""

    def inner(numbers: tw.Stream[int]) -> tuple[tw.Stream[int], tw.Stream[int]]:
        less = numbers.map(lambda n: n - 1).map(abs)
        return less.filter(lambda n: n % 3 > 0), less.filter(lambda n: n % 3 == 0)

    def outer(numbers: tw.Stream[int]) -> tuple[tw.Stream[int], tw.Stream[int]]:
        left = numbers.iterate(inner, name="inner")
        return left.filter(bool), left.filter(lambda n: not n)

    flow = tw.Dataflow("looping")
    flow.input("numbers").map(abs).map(int).iterate(outer, name="outer").map(str).capture("results")
    return flow


def test_the_picture_and_the_document_agree() -> None:
    """A page finds in the picture each operator, edge and scope that a document has, and nothing else."""
    description = description_of(looping())
    numbers = GraphNumbers(description.plan(), description.outline())
    svg = svg_of(description.outline())
    operators, edges = dict(numbers.operators()), dict(numbers.described_edges())
    assert sorted(re.findall(r'^<g data-operator="(\d+)"', svg, re.MULTILINE)) == sorted(operators)
    assert sorted(re.findall(r'^<g data-edge="(\d+)"', svg, re.MULTILINE)) == sorted(edges)
    scopes = {operator["scope"] for operator in operators.values()} - {""}
    assert set(re.findall(r'^<g data-scope="([^"]+)"', svg, re.MULTILINE)) == scopes == {"outer", "outer/inner"}
    for number, operator in operators.items():
        [title] = re.findall(rf'data-operator="{number}"><title>(.*?)</title>', svg)
        assert title == operator["name"]


def test_edges_of_workers_and_edges_within_chains_are_all_edges() -> None:
    """Each has one number, and none is left out."""
    description = description_of(looping())
    numbers = GraphNumbers(description.plan(), description.outline())
    found = [*numbers.outer_edges, *(number for _, number in numbers.inner_edges)]
    assert sorted(found, key=int) == list(dict(numbers.described_edges()))
    assert len(numbers.inner_edges) >= 2


def test_kinds() -> None:
    """What has no inputs begins the dataflow, and what has no outputs ends it."""
    description = description_of(looping())
    kinds = {one["name"]: one["kind"] for _, one in GraphNumbers(description.plan(), description.outline()).operators()}
    assert (kinds["input numbers"], kinds["map"], kinds["capture results"]) == ("input", "operator", "output")
