"""Explanations of a frontier: the tokens and messages that hold it back."""

from collections.abc import Callable
from dataclasses import dataclass, field
from html import escape

from tidewheel.display.notebook_cell import is_notebook
from tidewheel.progress import Antichain, PathSummary, Time
from tidewheel.runtime.messages.worker_report import BusyWorker

_MOST_SHOWN = 8
_LONG_ROUTE = 7
_ADVICE = "   -> "


@dataclass(frozen=True, slots=True)
class Holder:
    """Tokens or messages that hold back a frontier, and one of their paths to it.

    Attributes:
        what: a description: ``operator 'sort' holds 2 tokens for time 3 on worker 1``.
        operator: the operator that holds the tokens, or that will receive the messages.
        path: the path summary to the frontier; ``route`` names the operators on the way.
        advice: what you can do; empty if the tokens or messages only wait for earlier holders.
        port: the input of another holder that they hold back, such as ``input 1 of 'sort'``; empty if they hold back
            the probe or topic itself.
    """

    what: str
    operator: str
    time: Time
    workers: tuple[int, ...]
    path: PathSummary
    route: tuple[str, ...]
    arrives: Time
    advice: str
    port: str = ""

    def __str__(self) -> str:
        route = " > ".join(_shortened(self.route))
        lines = [
            self.what,
            f"   reaches {self.port or 'it'} at {self.arrives!r}, by {route} (time {self.path.describe()})",
        ]
        return "\n".join(lines + [f"{_ADVICE}{self.advice}"] * bool(self.advice))


@dataclass(frozen=True, slots=True)
class Explanation:
    """The causes that hold back the frontier at a probe or topic; print it to read it.

    Attributes:
        name: the probe or topic.
        frontier: the earliest times that can still arrive there; empty once it has ended.
        holders: the causes. A cause comes after the causes that it waits for. Only an operator that may be right to
            wait comes before the causes at its input.
        busy: workers that did not answer because an operator was running.
        show_live: shows the holders live in a notebook; returns False if that is impossible.
    """

    name: str
    frontier: Antichain
    holders: tuple[Holder, ...] = ()
    busy: tuple[BusyWorker, ...] = ()
    notes: tuple[str, ...] = field(default=())
    show_live: Callable[[], bool] | None = field(default=None, repr=False, compare=False)

    def __str__(self) -> str:
        if not len(self.frontier) and not self.busy:
            return f"{self.name!r} is complete: nothing can arrive there any more"
        times = ", ".join(map(repr, self.frontier))
        lines = [f"{self.name!r} waits: times from {times} on can still arrive there"]
        lines += [busy_text(worker) for worker in self.busy]
        lines += [f"{number}. {holder}" for number, holder in enumerate(self.holders[:_MOST_SHOWN], 1)]
        if len(self.holders) > _MOST_SHOWN:
            lines.append(f"and {len(self.holders) - _MOST_SHOWN} more like these")
        return "\n".join([*lines, *self.notes])

    __repr__ = __str__

    def _ipython_display_(self) -> None:
        if not is_notebook() or self.show_live is None or not self.show_live():
            raise NotImplementedError("it is shown as HTML or text")

    def _repr_html_(self) -> str:
        lines = str(self).splitlines()
        shown = [f"<b>{escape(line)}</b>" if line.startswith(_ADVICE) else escape(line) for line in lines]
        return "<pre>" + "\n".join(shown) + "</pre>"


def _shortened(route: tuple[str, ...]) -> tuple[str, ...]:
    if len(route) <= _LONG_ROUTE:
        return route
    return (*route[:3], f"{len(route) - 6} more", *route[-3:])


def busy_text(worker: BusyWorker) -> str:
    if worker.operator is None:
        return f"worker {worker.worker} did not answer"
    at = "" if worker.time is None else f" at time {worker.time!r}"
    return (
        f"worker {worker.worker} did not answer: it has been in operator {worker.operator!r}{at} for "
        f"{worker.seconds:.1f} s, and nothing else runs there meanwhile"
    )
