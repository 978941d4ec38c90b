"""The way to the part of an object that cannot be pickled."""

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

import tidewheel as tw
from tidewheel.transport.unpicklable_part import way_to_unpicklable


class Client:
    """Holds a lock, two steps away."""

    def __init__(self) -> None:
        self.name = "client"
        self.locks = {"own": threading.Lock()}

    def ask(self, number: int) -> int:
        """Return the number."""
        return number

    __call__ = ask


class Slotted:
    """Holds a lock in a slot."""

    __slots__ = ("lock", "unset")

    def __init__(self) -> None:
        self.lock = threading.Lock()


CLIENT = Client()


def by_global(number: int) -> int:
    return CLIENT.ask(number)


def by_default(number: int, client: Client = CLIENT) -> int:
    return client.ask(number)


def by_closure() -> Callable[[int], int]:
    client = Client()

    def ask(number: int) -> int:
        return client.ask(number)

    return ask


def transform_of(function: Any) -> Any:
    """Return what the workers would get of a map by a function."""
    flow = tw.Dataflow("test")
    flow.input("numbers").map(function)
    return flow._description.plan().operators[1].stages[0].transform


@pytest.mark.parametrize(
    ("function", "way"),
    [
        (by_global, "by_global > CLIENT > locks > ['own']"),
        (by_default, "by_default > client > locks > ['own']"),
        (by_closure(), "ask > client > locks > ['own']"),
        (CLIENT.ask, "self > locks > ['own']"),
        (partial(by_closure(), 1), "ask > client > locks > ['own']"),
        (Slotted(), "lock"),
    ],
    ids=["global", "default", "closure", "method", "partial", "slot"],
)
def test_the_way_has_the_names_by_which_the_program_knows_it(function: Any, way: str) -> None:
    """These are variables, parameters, attributes and keys."""
    assert way_to_unpicklable(function) == way


@pytest.mark.parametrize("function", [by_closure(), CLIENT.ask, CLIENT], ids=["closure", "method", "object"])
def test_what_an_operator_wraps_around_it_is_not_named(function: Any) -> None:
    """The way is that of the function alone."""
    assert way_to_unpicklable(transform_of(function)) == way_to_unpicklable(function) != ""


def test_what_can_be_pickled_or_is_itself_to_blame_has_no_way() -> None:
    """The error by itself says enough."""
    assert way_to_unpicklable([1, 2]) == ""
    assert way_to_unpicklable(threading.Lock()) == ""


def test_a_way_in_a_circle_ends() -> None:
    """A list may hold itself."""
    circle: list[Any] = [threading.Lock()]
    circle.insert(0, circle)
    assert way_to_unpicklable(circle)
