"""The keys of ``tidewheel top``."""

from functools import reduce

import pytest

from tidewheel.console.terminal.choices import ORDER_KEYS, Choices
from tidewheel.console.terminal.tables import ORDERS

UP, DOWN = "\x1b[A", "\x1b[B"


def after(*keys: str) -> Choices:
    return reduce(Choices.after, keys, Choices())


def test_every_order_has_a_key() -> None:
    """And every key an order that there is."""
    assert set(ORDER_KEYS.values()) == set(ORDERS)


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        (["b"], Choices(order="busy")),
        (["b", "b"], Choices(order="busy", is_reversed=True)),
        (["b", "b", "b"], Choices(order="busy")),
        (["b", "b", "r"], Choices(order="rate")),
        ([DOWN, DOWN, UP], Choices(first=1)),
        ([UP], Choices()),
        ([DOWN, "r"], Choices(order="rate")),
        (["j"], Choices(wants_next=True)),
        (["\t", ""], Choices()),
        ([DOWN, "j"], Choices(wants_next=True)),
        (["q"], Choices(is_over=True)),
        (["", "x", "\x1b"], Choices()),
    ],
)
def test_keys_change_what_is_shown(keys: list[str], expected: Choices) -> None:
    """The same order again is the reverse; the next job is asked for once a key; other keys do nothing."""
    assert after(*keys) == expected
