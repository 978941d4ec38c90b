"""What an operator says of itself: the same for the same program in any process, another where something differs."""

import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pyarrow as pa

import tidewheel as tw
from tests.kit.messages import raises
from tidewheel.runtime.description.dataflow_description import description_of
from tidewheel.runtime.description.origin import Origin, parameter


def origins(flow: tw.Dataflow) -> dict[str, Origin]:
    return {one.name: one.origin for one in description_of(flow).operators}


def test_an_operator_knows_its_method_and_arguments() -> None:
    """All operators of a method know it; the one that has its name is no part. Arguments that do not matter are out."""
    flow = tw.Dataflow("test")
    numbers = flow.input("numbers", int)
    numbers.window(tw.TumblingWindows(60), key=str, at=float, lateness=5, finish=len, name="w")
    numbers.count()
    found = origins(flow)
    assert (found["w"].method, found["w"].part, found["w"].is_named) == ("window", "", True)
    assert found["w times"].part == " times"
    assert str(found["w"].parameters["windows"]) == "TumblingWindows(length=60, offset=None)"
    assert str(found["w"].parameters["lateness"]) == "5"
    assert not {"finish", "name", "self"} & found["w"].parameters.keys()
    assert (found["count"].method, found["count"].is_named) == ("count", False)
    assert str(found["input numbers"].parameters["records"]) == "int"


def test_tables_say_their_keys_aggregates_and_schemas() -> None:
    """Another column of the key, another aggregate and another schema are other parameters."""

    def of(schema: pa.Schema, **aggregates: tuple[str, str]) -> Origin:
        flow = tw.Dataflow("test")
        flow.input("rows", schema).group_by("shop").aggregate(**aggregates)
        return origins(flow)["group_by"]

    schema = pa.schema({"shop": pa.string(), "price": pa.int64()})
    before = of(schema, total=("price", "sum"))
    assert (before.method, before.is_named) == ("group_by", False)
    assert before == of(schema, total=("price", "sum"))
    assert before != of(schema, total=("price", "max"))
    wider = schema.append(pa.field("day", pa.date32()))
    flow = tw.Dataflow("test")
    flow.input("rows", wider).deduplicate("shop", name="d")
    assert "day: date32" in origins(flow)["d"].parameters["the stream"].types[0]


def test_what_is_within_a_loop_is_no_argument_of_it() -> None:
    """The body of a loop adds operators that say what they are themselves."""
    flow = tw.Dataflow("test")
    flow.input("numbers").iterate(lambda inner: (inner.deduplicate(), inner.count(name="mine")))
    found = origins(flow)
    assert (found["iterate/deduplicate"].method, found["iterate/mine"].method) == ("deduplicate", "count")
    assert found["iterate/mine"].is_named


def test_a_wrong_call_says_what_is_wrong_with_it() -> None:
    """The error of Python names the method and the argument."""
    with raises(TypeError):
        tw.Dataflow("test").input("numbers").count(kye=str)  # type: ignore[call-overload]


def documented(number: int) -> int:
    """Return the next number."""
    return number + 1


def otherwise_documented(number: int) -> int:
    """Return the number that comes next."""
    return number + 1


def above(least: Any) -> Callable[[int], bool]:
    return lambda number: number > least


class Adder:
    """Adds a number."""

    def __call__(self, total: int, number: int) -> int:
        return total + number


FUNCTIONS: dict[str, Any] = {
    "constant": lambda n: n + 1,
    "other constant": lambda n: n + 2,
    "attribute": lambda n: n.real,
    "other attribute": lambda n: n.imag,
    "one": above(1),
    "two": above(2),
    "partial": partial(pow, 2),
    "other partial": partial(pow, 3),
    "builtin": len,
    "other builtin": sum,
    "set": lambda n: n in {"a", "b", "c"},
    "default": lambda n, m=3: n + m,
    "other default": lambda n, m=4: n + m,
    "callable": Adder(),
    "method": Adder().__call__,
}


def test_functions_that_do_something_else_have_another_digest() -> None:
    """By code, names, constants, defaults, and what they have closed over; docstrings and places do not matter."""
    digests = [parameter(function).functions for function in FUNCTIONS.values()]
    assert len(set(digests)) == len(digests)
    assert parameter(documented) == parameter(otherwise_documented)
    assert parameter(above(1)) == parameter(above(1))


def test_digests_are_the_same_in_another_process() -> None:
    """Whatever the order of sets is there."""
    program = f"from {__name__} import FUNCTIONS, parameter; print([*map(parameter, FUNCTIONS.values())])"
    ran = [
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=env).stdout
        for env in ({"PYTHONHASHSEED": "1", "PYTHONPATH": "."}, {"PYTHONHASHSEED": "2", "PYTHONPATH": "."})
    ]
    assert ran[0] == ran[1] == f"{[*map(parameter, FUNCTIONS.values())]}\n"


def test_values_are_told_apart_and_objects_by_class() -> None:
    """Numbers, texts, durations and types show as they are; an object of a user shows nothing but its class."""

    class Account:
        password = "tell nobody"

    shown = [str(parameter(value)) for value in (5, "user", timedelta(minutes=1), list[int], None, Account(), len)]
    assert shown[:3] == ["5", "'user'", "datetime.timedelta(seconds=60)"]
    assert shown[3:5] == ["list[int]", "None"]
    assert shown[5].endswith("Account")
    assert shown[6] == "a function"
    long = parameter("x" * 10_000)
    assert len(long.value) < 300
    assert long != parameter("x" * 9_999)
