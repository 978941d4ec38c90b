"""Users see of a class what the documentation names, and nothing else."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tidewheel as tw

ROOT = Path(__file__).parents[3]
OPERATORS = (ROOT / "docs" / "operators.md").read_text(encoding="utf-8")


def documented(owner: type) -> set[str]:
    """Return the names that docs/operators.md has for a class."""
    return set(re.findall(rf"^\| `{owner.__name__}\.(\w+)", OPERATORS, re.MULTILINE))


def public(names: Iterator[str] | list[str]) -> set[str]:
    """Return the names that are for users."""
    return {name for name in names if not name.startswith("_")}


@pytest.mark.parametrize("made", [tw.Dataflow("flow"), tw.Dataflow("flow").scope("loop")])
def test_a_class_shows_what_the_documentation_names(made: object) -> None:
    """Its description, with all that engines and operators call there, is not for users."""
    assert public(dir(made)) == documented(type(made))


def test_what_an_operator_works_with_shows_what_the_documentation_names() -> None:
    """What workers, channels and tokens do with ports and contexts is not for operators; substreams change nothing."""
    seen: list[object] = []

    def build(context: tw.OperatorContext) -> Any:
        seen.append(context)
        return lambda *ports: seen.extend(ports)

    for bound in (None, "soft", "firm"):
        flow = tw.Dataflow("flow")
        numbers = flow.input("numbers")
        (numbers if bound is None else numbers.substreams("numbers", key=abs)).unary(build, bound=bound, name="one")
        with tw.run(flow, engine="local") as job:
            job.input("numbers").close()
            job.wait()
    assert {type(one) for one in seen} == {tw.OperatorContext, tw.InputPort, tw.OutputPort}
    for one in seen:
        assert public(dir(one)) == documented(type(one))


def test_a_stream_shows_its_operators_and_what_its_docstring_names() -> None:
    """Where it comes from, in the description, is not for users."""
    operators = set(re.findall(r"^\| `(\w+)\(", OPERATORS, re.MULTILINE))
    stream = tw.Dataflow("flow").input("in")
    assert public(dir(stream)) - operators == {"flow", "nesting", "schema"}
