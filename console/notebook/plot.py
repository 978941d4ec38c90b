"""A live chart of a subscription: one number for each of the latest epochs."""

import threading
from collections import deque
from collections.abc import Iterator, Mapping
from functools import partial
from math import fsum, inf
from numbers import Real
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from tidewheel.console.page.job_page import Shown
from tidewheel.display.notebook_cell import is_notebook
from tidewheel.gateway.json_form import encode_json
from tidewheel.host.extras import check_extra
from tidewheel.pubsub.errors import DeliveryError
from tidewheel.pubsub.messages.events import Epoch
from tidewheel.pubsub.subscribers.subscription import What

if TYPE_CHECKING:
    from tidewheel.console.notebook.live_widget import LiveWidget

EVERY_S: Final = 0.25
"""The shortest time between two drawings of a chart, in seconds."""
MOST_POINTS: Final = 600
"""The default number of epochs that a chart shows."""
_LEAST_POINTS: Final = 2
_MOST_SIGNS: Final = 100

Point: TypeAlias = tuple[float, float]
"""An epoch and its number."""


class Topic(Protocol):
    topic: str

    def epochs(self, timeout_s: float | None = None) -> Iterator[Epoch]:
        """Yield epochs; raise TimeoutError if one does not arrive in time."""

    def close(self) -> None:
        """Leave the topic; thread-safe."""


class PlotPage:
    """The points of one chart.

    Args:
        most: the number of latest points to keep.
    """

    def __init__(self, most: int) -> None:
        self.shown = Shown()
        self._points: deque[Point] = deque(maxlen=most)

    def receive(self, points: list[Point]) -> None:
        self._points.extend(points)
        self._show(Shown(self.shown.number + 1, self._document(), encode_json({"points": points})))

    def end(self, problem: str | None = None) -> None:
        said = {} if problem is None else {"problem": problem}
        document = {**self._document(), **said}
        self._show(Shown(self.shown.number + 1, document, encode_json(said), is_last=True))

    def history(self, part: str) -> Mapping[str, Any]:
        return {}

    def _document(self) -> dict[str, Any]:
        return {"points": list(self._points)}

    def _show(self, shown: Shown) -> None:
        self.shown = shown


class Points:
    """Reads a subscription, and yields the points of its epochs, several at a time."""

    def __init__(self, subscription: Topic, what: What) -> None:
        self._subscription = subscription
        self._what = what
        self._closed = threading.Event()

    def __iter__(self) -> Iterator[list[Point]]:
        """Yield points as they arrive, at most four times a second.

        Raises:
            DeliveryError: the number of an epoch cannot be computed, or the topic has failed.
        """
        found: list[Point] = []
        told_s, count = -inf, 0
        for epoch in self._epochs():
            if epoch is not None:
                number = number_of(self._subscription.topic, epoch, self._what)
                found += [] if number is None else [(_place(epoch.time, count), number)]
                count += 1
            if found and (epoch is None or monotonic() - told_s >= EVERY_S):
                yield found
                found, told_s = [], monotonic()
        if found:
            yield found

    def _epochs(self) -> Iterator[Epoch | None]:
        """Yield epochs, and None before a pause, without waiting for an epoch: an idle local job would raise."""
        epochs = self._subscription.epochs(timeout_s=0.0)
        while True:
            try:
                yield next(epochs)
            except TimeoutError:
                yield None
                self._closed.wait(EVERY_S)
            except StopIteration:
                return

    def close(self) -> None:
        self._closed.set()
        self._subscription.close()


def _place(time: Any, count: int) -> float:
    return time if isinstance(time, int | float) and not isinstance(time, bool) else count


def number_of(topic: str, epoch: Epoch, what: What) -> float | None:
    """Return the number of an epoch: the function's result, or the mean of a column, ignoring None; None without any.

    Raises:
        DeliveryError: the column is missing, a value is not a number, or the function fails.
    """
    if callable(what):
        try:
            found = what(epoch.records)
        except Exception as error:
            said = f"the function of plot() raises {type(error).__name__}: {error}"
            how = "It receives the list of the epoch's records, and returns a number, or None for no point"
            raise _refused(topic, f"{said}. {how}", epoch) from error
        return None if found is None else _checked(topic, epoch, "the function of plot() returns", found)
    values = [value for record in epoch.records if (value := _column(topic, epoch, record, what)) is not None]
    numbers = [_checked(topic, epoch, f"column {what!r} has", value) for value in values]
    return fsum(numbers) / len(numbers) if numbers else None


def _column(topic: str, epoch: Epoch, record: Any, column: str | int) -> Any:
    try:
        return record[column]
    except (LookupError, TypeError):
        known = f"; it has {', '.join(map(repr, record))}" if isinstance(record, dict) else ""
        said = f"the record {_short(record)} has no column {column!r}{known}. Give plot() the key of a dict or "
        how = "of a column of Arrow, the place in a tuple, or a function such as lambda records: len(records)"
        raise _refused(topic, said + how, epoch) from None


def _checked(topic: str, epoch: Epoch, what: str, value: Any) -> float:
    if not isinstance(value, Real):
        how = "Give plot() a column of numbers, or a function that returns one, such as lambda records: len(records)"
        raise _refused(topic, f"{what} {_short(value)}, which is no number. {how}", epoch)
    return float(value)


def _refused(topic: str, why: str, epoch: Epoch | None = None) -> DeliveryError:
    where = "" if epoch is None else f", epoch {epoch.time!r}"
    return DeliveryError(f"topic {topic!r}{where}: {why}", topic=topic)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _MOST_SIGNS else f"{text[:_MOST_SIGNS]}..."


def plot(subscription: Topic, what: What, most: int = MOST_POINTS) -> "LiveWidget":
    topic = subscription.topic
    if not is_notebook():
        said = "plot() draws in a notebook, and this program does not run in one. Iterate over epochs(), or open a "
        raise _refused(topic, f"{said}notebook of Jupyter and subscribe there")
    if not callable(what) and (isinstance(what, bool) or not isinstance(what, str | int)):
        said = "plot() takes the name of a column, the place in a tuple, or a function"
        raise _refused(topic, f"{said}, not {_short(what)}")
    if isinstance(most, bool) or not isinstance(most, int) or most < _LEAST_POINTS:
        raise _refused(topic, f"most is a number of points, at least {_LEAST_POINTS}, not {most!r}")
    check_extra("notebook", "plot()", partial(_refused, topic))
    from tidewheel.console.notebook.live_widget import LiveWidget

    label = "a number for each epoch" if callable(what) else f"mean of {what}"
    return LiveWidget(
        PlotPage(most),
        partial(Points, subscription, what),
        kind="plot",
        name=f"Topic {topic}",
        label=label,
        most=most,
    )
