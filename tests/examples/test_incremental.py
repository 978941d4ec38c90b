"""The examples of collections against plain Python, at each epoch of random histories."""

import ast
import heapq
import random
import re
import runpy
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from functools import partial
from itertools import combinations, pairwise, product
from typing import Any, NamedTuple

import pytest

from examples.collections import (
    incremental_closure,
    incremental_components,
    incremental_core,
    incremental_kmeans,
    incremental_pagerank,
    incremental_paths,
    incremental_rules,
    incremental_strongly_connected,
    incremental_triangles,
)
from examples.parts.history import Changes, Program, added, removed, states
from examples.spark import incremental_join
from tests.examples.index import EXAMPLES, programs
from tests.examples.test_programs import run_program

EPOCHS = 5
NODES = range(9)
PAIRS = [pair for pair in product(NODES, NODES) if pair[0] != pair[1]]
FRIENDS = [tuple(sorted(pair)) for pair in combinations(["ann", "bob", "cat", "dan", "eve", "fay", "gus"], 2)]
ROADS = [(one, (other, minutes)) for (one, other), minutes in zip(PAIRS, range(1, 99), strict=False)]
FACTS = [("parent", one, other) for one, other in product("abcd", "abcd")]
POINTS = list(product(range(0, 50, 7), range(0, 50, 7)))
FIRST = [(0, (0, 0)), (1, (40, 3)), (2, (20, 44))]
RULES = [
    *incremental_rules.FAMILY,
    "sibling(X, Y) :- parent(P, X), parent(P, Y)",
    "own(X) :- parent(X, X)",
    "heir(X) :- ancestor(a, X), parent(X, Y), parent(Y, b)",
]


class Case(NamedTuple):
    """A program, all records that its input may have, what plain Python says of some, and a second input if any."""

    program: Program
    universe: list[Any]
    expected: Callable[[set[Any]], Iterable[Any]]
    others: tuple[list[Any], ...] = ()


def components(edges: set[Any]) -> set[Any]:
    reach = mutual(edges | {edge[::-1] for edge in edges})
    return {(node, min(there)) for node, there in reach.items()}


def mutual(arcs: set[Any]) -> dict[Any, set[Any]]:
    """Return, for each node on a circle, all nodes that it reaches and that reach it."""
    pairs = closure(arcs)
    found: dict[Any, set[Any]] = defaultdict(set)
    for one, other in pairs:
        if (other, one) in pairs:
            found[one].add(other)
    return found


def closure(arcs: set[Any]) -> set[Any]:
    pairs = set(arcs)
    while more := {(one, end) for one, middle in pairs for start, end in arcs if start == middle} - pairs:
        pairs |= more
    return pairs


def strongly_connected(arcs: set[Any]) -> set[Any]:
    return {(node, min(there)) for node, there in mutual(arcs).items()}


def distances(roads: set[Any]) -> list[Any]:
    found: dict[int, int] = {}
    heap = [(0, 0)]
    while heap:
        minutes, place = heapq.heappop(heap)
        if place not in found:
            found[place] = minutes
            for start, (end, more) in roads:
                if start == place:
                    heapq.heappush(heap, (minutes + more, end))
    return list(found.items())


def ranks(links: set[Any]) -> list[Any]:
    pages = {page for link in links for page in link}
    counts = Counter(page for page, _ in links)
    found = dict.fromkeys(pages, 1_000_000)
    for _ in range(20):
        passed = dict.fromkeys(pages, 150_000)
        for page, other in links:
            passed[other] += found[page] * 85 // (100 * counts[page])
        found = passed
    return list(found.items())


def core(friends: set[Any]) -> set[Any]:
    pairs = friends | {pair[::-1] for pair in friends}
    while True:
        counts = Counter(one for one, _ in pairs)
        left = {pair for pair in pairs if min(counts[pair[0]], counts[pair[1]]) >= 3}
        if left == pairs:
            return pairs
        pairs = left


def triangles(friends: set[Any]) -> list[Any]:
    people = sorted({person for pair in friends for person in pair})
    return [three for three in combinations(people, 3) if all(pair in friends for pair in combinations(three, 2))]


def conclusions(facts: set[Any]) -> set[Any]:
    """Try all values for all names of all rules until nothing new follows."""
    known = set(facts)
    while True:
        before = set(known)
        for rule in RULES:
            head, *body = [tuple(re.findall(r"\w+", atom)) for atom in re.findall(r"\w+\(.*?\)", rule)]
            names = sorted({word for atom in body for word in atom if word.isupper()})
            for values in product("abcd", repeat=len(names)):
                stands = dict(zip(names, values, strict=True))
                said = [tuple(stands.get(word, word) for word in atom) for atom in (head, *body)]
                if before.issuperset(said[1:]):
                    known.add(said[0])
        if known == before:
            return known


def centres(points: set[Any]) -> list[Any]:
    found = dict(FIRST)
    for _ in range(50):
        groups = defaultdict(list)
        for x, y in points:
            groups[min(((x - a) ** 2 + (y - b) ** 2, n) for n, (a, b) in found.items())[1]].append((x, y))
        found = {n: tuple(sum(axis) // len(some) for axis in zip(*some, strict=True)) for n, some in groups.items()}
    return list(found.items())


CASES = {
    "components": Case(incremental_components.components, PAIRS, components),
    "paths": Case(incremental_paths.distances, ROADS, distances, ([(0, 0)],)),
    "pagerank": Case(incremental_pagerank.ranks, PAIRS, ranks),
    "strongly_connected": Case(incremental_strongly_connected.components, PAIRS, strongly_connected),
    "core": Case(partial(incremental_core.core, least=3), FRIENDS, core),
    "triangles": Case(incremental_triangles.triangles, FRIENDS, triangles),
    "closure": Case(incremental_closure.reachable, PAIRS, closure),
    "rules": Case(partial(incremental_rules.conclusions, rules=RULES), FACTS, conclusions),
    "kmeans": Case(incremental_kmeans.centres, POINTS, centres, (FIRST,)),
}


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("name", CASES)
def test_each_epoch_is_what_plain_python_says(name: str, workers: int) -> None:
    """Some of the records change in each epoch; all epochs are under way at once."""
    case = CASES[name]
    seed = random.randrange(2**32)
    history, present = changing(random.Random(seed), case.universe)
    found = states(case.program, history, *([added(other)] for other in case.others), workers=workers)
    for epoch, (state, records) in enumerate(zip(found, present, strict=True)):
        assert state == dict.fromkeys(case.expected(records), 1), f"epoch {epoch} of seed {seed}"


def changing(drawn: random.Random, universe: list[Any]) -> tuple[list[Changes], list[set[Any]]]:
    """Return the changes of some epochs, and what is there after each."""
    present = set(drawn.sample(universe, len(universe) // 3))
    history, states = [added(sorted(present))], [set(present)]
    for _ in range(1, EPOCHS):
        moved = set(drawn.sample(universe, drawn.randint(0, 3)))
        history.append([*removed(sorted(moved & present)), *added(sorted(moved - present))])
        present ^= moved
        states.append(set(present))
    return history, states


@pytest.mark.parametrize("name", CASES)
def test_the_program_shows_what_changes(name: str, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    """By itself, on the local engine: three epochs, each another, and the line of the index among them."""
    monkeypatch.setattr(sys, "argv", [name, "--engine", "local"])
    runpy.run_path(str(EXAMPLES / "collections" / f"incremental_{name}.py"), run_name="__main__")
    printed = capsys.readouterr().out
    assert programs()[f"incremental_{name}"].has_printed(printed), printed
    lines = printed.splitlines()
    assert [line.split(":")[0] for line in lines] == ["epoch 0", "epoch 1", "epoch 2"]
    assert all(one[8:] != other[8:] for one, other in pairwise(lines))


def test_examples_of_collections_are_at_most_fifty_lines() -> None:
    """Each can be read at a glance, with its docstrings and the data that it shows."""
    lengths = {file.name: len(file.read_text().splitlines()) for file in EXAMPLES.rglob("incremental_*.py")}
    assert {name: length for name, length in lengths.items() if length > 50} == {}
    assert len(lengths) == len(CASES) + 1, "the live join has a test on Spark"


@pytest.mark.spark
@pytest.mark.long
def test_two_dataframes_are_joined_while_they_change(ray_cluster: str) -> None:
    """The changes that the program prints add up, at each epoch, to the join of the rows that are there."""
    printed = run_program("incremental_join", RAY_ADDRESS=ray_cluster).splitlines()
    changed = {int(line[6]): ast.literal_eval(f"[{line[8:].strip().replace(') (', '), (')}]") for line in printed}
    found: Counter[Any] = Counter()
    for epoch in range(3):
        for pair, count in changed.get(epoch, []):
            found[pair] += count
        people, bought = (present(rows, epoch) for rows in (incremental_join.CUSTOMERS, incremental_join.ORDERS))
        expected = {(name, amount) for number, name in people for customer, amount in bought if number == customer}
        assert {pair: count for pair, count in found.items() if count} == dict.fromkeys(expected, 1), f"epoch {epoch}"


def present(rows: list[Any], epoch: int) -> list[Any]:
    """Return the rows (epoch, ..., diff) that are there at an epoch, without these two columns."""
    counts: Counter[Any] = Counter()
    for when, *row, diff in rows:
        counts[tuple(row)] += diff * (when <= epoch)
    return [row for row, count in counts.items() if count]
