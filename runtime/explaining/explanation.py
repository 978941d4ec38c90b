"""The reason why a frontier is where it is: the tokens and messages that hold it back."""

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
    """Tokens or messages that hold a frontier back, by one of the paths by which they do.

    Attributes:
        what: who they are, in words: ``operator 'sort' holds 2 tokens for time 3 on worker 1``.
        operator: the operator that holds the tokens, or that the messages are for.
        time: their time.
        workers: the workers on which they are; empty for messages that are on their way.
        path: the path summary by which they reach the frontier, and by ``route`` the operators on the way.
        arrives: the time at which they can arrive there.
        advice: what can be done, in words; empty if they only wait for holders listed before.
        port: empty if it is the probe or topic that they reach. Otherwise they hold back only this input, such as
            ``input 1 of 'sort'``, of an operator that is listed too and would run again if they did not.
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
    """What holds the frontier at a probe or topic back; print it to read it.

    Attributes:
        name: the probe or topic.
        frontier: the earliest times that can still arrive there; empty once it has ended.
        holders: what holds it back; those that wait for others come after them. Next to an operator that may do right
            to wait for its input is what holds that input back.
        busy: workers that did not answer because an operator of theirs was running.
        notes: what else may matter.
        show_live: shows in a notebook what holds the frontier back from now on; returns False if that cannot be.
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
        """Show a live view in a notebook; elsewhere, and without the library for that, have the text shown."""
        if not is_notebook() or self.show_live is None or not self.show_live():
            raise NotImplementedError("it is shown as HTML or text")

    def _repr_html_(self) -> str:
        """Return the text with all advice in bold, for a notebook that ends a cell with it."""
        lines = str(self).splitlines()
        shown = [f"<b>{escape(line)}</b>" if line.startswith(_ADVICE) else escape(line) for line in lines]
        return "<pre>" + "\n".join(shown) + "</pre>"


def _shortened(route: tuple[str, ...]) -> tuple[str, ...]:
    if len(route) <= _LONG_ROUTE:
        return route
    return (*route[:3], f"{len(route) - 6} more", *route[-3:])


def busy_text(worker: BusyWorker) -> str:
    """Say why a worker did not answer."""
    if worker.operator is None:
        return f"worker {worker.worker} did not answer"
    at = "" if worker.time is None else f" at time {worker.time!r}"
    return (
        f"worker {worker.worker} did not answer: it has been in operator {worker.operator!r}{at} for "
        f"{worker.seconds:.1f} s, and nothing else runs there meanwhile"
    )
