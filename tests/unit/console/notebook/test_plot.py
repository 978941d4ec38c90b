"""The chart of a topic in a notebook: its numbers, its bounds, and its errors."""

import sys
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.kit.messages import raises
from tests.kit.notebook.kernel import kernel
from tidewheel.console.notebook import plot as plot_module
from tidewheel.console.notebook.plot import PlotPage, Points, number_of, plot
from tidewheel.pubsub.errors import DeliveryError
from tidewheel.pubsub.messages.events import Epoch


class Records(Epoch):
    """An epoch whose records are there already."""

    def __init__(self, time: Any, records: list[Any]) -> None:
        super().__init__(time, ())
        vars(self)["records"] = records


class ByHand:
    """A subscription that has these epochs, with a TimeoutError for each None."""

    topic = "ranks"

    def __init__(self, *epochs: Epoch | None) -> None:
        self._epochs = iter(epochs)
        self.is_closed = False
        self.timeouts: list[float | None] = []

    def epochs(self, timeout_s: float | None = None) -> "ByHand":
        self.timeouts.append(timeout_s)
        return self

    def __iter__(self) -> Iterator[Epoch]:
        return self

    def __next__(self) -> Epoch:
        found = next(self._epochs)
        if found is None:
            raise TimeoutError
        return found

    def close(self) -> None:
        self.is_closed = True


@pytest.mark.parametrize(
    ("records", "what", "expected"),
    [
        ([{"n": 1}, {"n": 4}], "n", 2.5),
        ([("a", 1), ("b", np.int64(2))], 1, 1.5),
        ([{"n": None}, {"n": np.float32(2.0)}], "n", 2.0),
        ([{"n": True}, {"n": False}], "n", 0.5),
        ([{"n": None}], "n", None),
        ([], "n", None),
        ([1, 2, 3], len, 3.0),
        ([1, 2, 3], sum, 6.0),
        ([], lambda records: max(records, default=None), None),
        (pa.table({"n": [1.5, 2.5]}).to_pylist(), "n", 2.0),
    ],
)
def test_an_epoch_has_one_number(records: list[Any], what: Any, expected: float | None) -> None:
    """The mean of a column, or what a function returns; none is no point."""
    assert number_of("ranks", Records(3, records), what) == expected


def fail(records: list[Any]) -> float:
    """Fail as a function of a user may."""
    raise KeyError("city")


@pytest.mark.parametrize(
    ("records", "what", "expected"),
    [
        ([{"n": 1, "city": "Oslo"}], "city", ["epoch 3", "column 'city' has 'Oslo', which is no number", "lambda"]),
        ([{"n": Decimal(1)}], "n", ["Decimal('1'), which is no number"]),
        ([{"n": 1, "city": "Oslo"}], "m", ["no column 'm'; it has 'n', 'city'", "lambda records"]),
        ([("a", 1)], 2, ["the record ('a', 1) has no column 2"]),
        ([7], "n", ["the record 7 has no column 'n'"]),
        ([7], str, ["the function of plot() returns '[7]', which is no number"]),
        ([7], fail, ["raises KeyError: 'city'", "receives the list of the epoch's records"]),
        (["x" * 1000], 0, ["column 0 has 'x'"]),
    ],
)
def test_what_is_no_number_is_an_error_that_says_what_to_do(records: list[Any], what: Any, expected: list[str]) -> None:
    """With topic, epoch and value."""
    with pytest.raises(DeliveryError) as caught:
        number_of("ranks", Records(3, records), what)
    assert "topic 'ranks'" in str(caught.value)
    assert len(str(caught.value)) < 400
    for text in expected:
        assert text in str(caught.value)


def test_points_come_several_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each epoch has its place; where times are no numbers, the place is the number of the epoch."""
    monkeypatch.setattr(plot_module, "EVERY_S", 0.01)
    monkeypatch.setattr(plot_module, "monotonic", lambda: 7.0)
    topic = ByHand(Records(1, [1]), Records(2, [1, 2]), Records(5, [9]), None, None, Records(6, [1]))
    assert list(Points(topic, len)) == [[(1, 1.0)], [(2, 2.0), (5, 1.0)], [(6, 1.0)]]
    assert topic.timeouts == [0.0]


def test_points_come_though_epochs_never_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four times a second."""
    clock = iter([0.1 * n for n in range(100)])
    monkeypatch.setattr(plot_module, "monotonic", lambda: next(clock))
    points = list(Points(ByHand(*(Records(n, [n]) for n in range(30))), len))
    assert [point for some in points for point in some] == [(n, 1.0) for n in range(30)]
    assert 5 < len(points) < 15


def test_times_of_loops_have_places() -> None:
    """They are pairs."""
    topic = ByHand(Records((3, 0), [1]), Records((3, 1), []), Records((3, 2), [1, 2]))
    points = [point for some in Points(topic, lambda records: len(records) or None) for point in some]
    assert points == [(0, 1.0), (2, 2.0)]


def test_points_are_bounded() -> None:
    """The latest ones stay; a view that comes later receives these."""
    page = PlotPage(3)
    page.receive([(n, float(n)) for n in range(4)])
    page.receive([(4, 4.0)])
    assert page.shown.document == {"points": [(2, 2.0), (3, 3.0), (4, 4.0)]}
    assert page.shown.event_after(1) == b'event: patch\ndata: {"points":[[4,4.0]]}\n\n'
    assert page.shown.event_after(0).startswith(b'event: whole\ndata: {"points":[[2,2.0]')
    page.end("it is gone")
    assert page.shown.is_last
    assert page.shown.event_after(2) == b'event: patch\ndata: {"problem":"it is gone"}\n\n'
    assert page.shown.event_after(0).endswith(b'"problem":"it is gone"}\n\n')


def test_outside_of_a_notebook_plot_says_what_to_do() -> None:
    """The subscription stays as it is."""
    topic = ByHand()
    with raises(DeliveryError):
        plot(topic, "n")
    assert not topic.is_closed


def test_without_anywidget_plot_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the extra."""
    monkeypatch.delitem(sys.modules, "tidewheel.console.notebook.live_widget")
    monkeypatch.setitem(sys.modules, "anywidget", None)
    with kernel(), raises(DeliveryError):
        plot(ByHand(), "n")


@pytest.mark.parametrize(
    ("what", "most", "expected"),
    [
        (1.5, 600, "the name of a column, the place in a tuple, or a function, not 1.5"),
        (None, 600, "not None"),
        ("n", 1, "at least 2, not 1"),
        ("n", True, "not True"),
    ],
)
def test_arguments_are_checked_before_anything_is_read(what: Any, most: Any, expected: str) -> None:
    """Each error names the topic."""
    with kernel(), pytest.raises(DeliveryError, match=expected):
        plot(ByHand(), what, most)
