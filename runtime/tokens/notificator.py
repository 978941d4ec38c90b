"""The notificator: times that an operator waits for, each with the token for its results."""

import operator
from collections.abc import Callable, Container, Iterator
from typing import TYPE_CHECKING

from tidewheel.progress import Antichain, Time, TimeDomain
from tidewheel.runtime.errors import TokenError
from tidewheel.runtime.messages.labels import Label, Labels
from tidewheel.runtime.tokens.timestamp_token import LentToken, TimestampToken

if TYPE_CHECKING:
    from tidewheel.runtime.worker.ports import InputPort, OutputPort


class Notificator:
    """Tells an operator when no more records can arrive at a time, once for each time that it asks for.

    For each of these times and substreams the notificator holds a token, which keeps the time open downstream.
    ``context.notificator()`` returns a new one.

    >>> import tidewheel as tw
    >>> def build(context):
    ...     held = context.state("held", dict)
    ...     notificator = context.notificator()
    ...
    ...     def schedule(input, output):
    ...         for lent, batch in input:
    ...             held.setdefault(lent.time, []).extend(batch)
    ...             notificator.notify_at(lent)
    ...         for token in notificator.ready(input):
    ...             output.send(token, sorted(held.pop(token.time)))
    ...
    ...     return schedule
    >>> flow = tw.Dataflow("sorted")
    >>> _ = flow.input("numbers").unary(build, name="sort").capture("sorted")
    >>> with tw.run(flow, engine="local") as job:
    ...     with job.input("numbers") as numbers:
    ...         numbers.send([3, 1])
    ...         numbers.send([2])
    ...     job.wait()
    ...     job.captured("sorted")
    [Captured(time=0, batch=[1, 2, 3])]

    Source: Naiad (SOSP 2013), section 2.2, ``NotifyAt``; timely dataflow's ``FrontierNotificator``.
    """

    __slots__ = ("_added", "_in_loop", "_looked_at", "_pending", "_working_at")

    def __init__(self, working_at: Callable[[Time], None] = lambda time: None, *, in_loop: bool = False) -> None:
        self._pending: dict[tuple[Time, Labels | None], TimestampToken] = {}
        self._looked_at: tuple[Antichain, ...] | None = None  # None: more may be ready
        self._added = False
        self._working_at = working_at
        self._in_loop = in_loop

    @property
    def times(self) -> tuple[Time, ...]:
        """The times that the operator waits for, in the order in which it asked."""
        return tuple(dict.fromkeys(time for time, _ in self._pending))

    @property
    def tokens(self) -> tuple[TimestampToken, ...]:
        """The tokens that the notificator holds, one for each time and substream."""
        return tuple(self._pending.values())

    def __contains__(self, time: Time) -> bool:
        return (time, None) in self._pending or any(waited == time for waited, _ in self._pending)

    def notify_at(self, token: TimestampToken | LentToken, output: "OutputPort | None" = None) -> None:
        """Let `ready` yield, once, a token for this token's time. Asking for the same time again changes nothing.

        Args:
            token: a lent token is retained. A token that the operator owns, as after ``delayed(time)``, now belongs to
                the notificator.
            output: the output for which a lent token is retained; by default the only one.

        Raises:
            TokenError: the token is discarded, or was lent to a call that has ended, or the notificator has a token of
                another output for this time. Each output needs its own notificator.
        """
        place = token.time, token.label
        pending = self._pending.get(place)
        if pending is not None:
            if isinstance(token, TimestampToken):
                self._check_output(pending, token._stamp[0])
                if token is not pending:
                    token.discard()
            elif output is not None:
                self._check_output(pending, output._running.location)
            return
        self._pending[place] = token.retain(output) if isinstance(token, LentToken) else token
        self._added = True

    @staticmethod
    def _check_output(pending: TimestampToken, location: int) -> None:
        if pending._stamp[0] != location:
            raise TokenError(
                f"operator {pending._owner.name!r} asked one notificator to keep tokens of two outputs for time "
                f"{pending.time!r}, and it keeps one. Make one for each output, with context.notificator()"
            )

    def take(self, time: Time, label: Label | None = None) -> TimestampToken:
        """Return the token of a time that the operator waits for, complete or not.

        The token then belongs to the caller.

        Pass it to `notify_at` to wait again. Raises KeyError if the notificator has no token for this time and label.
        """
        return self._pending.pop((time, label))

    def _drop_others(self, places: Container[tuple[Time, Labels | None]]) -> None:
        """Discard all tokens except those of ``places``, each a (time, label).

        After a change of the number of workers, the notificator has the tokens of all former workers, but the operator
        has only its share of the state.
        """
        for place in [place for place in self._pending if place not in places]:
            self._pending.pop(place).discard()

    def ready(self, *inputs: "InputPort", sequential: bool = True) -> Iterator[TimestampToken]:
        """Yield a token for each awaited time at which ``inputs`` can receive nothing more, in the order of times.

        In a loop, all rounds of an epoch come before the next epoch, so state does not depend on which epoch was
        faster. The order is that of the domain's `in_order`. A time waits only for earlier times.

        With substreams there is one token for each time and ``token.key``, so keep pending results by both. Each token
        is discarded when the ``for`` loop asks for the next; keep a ``clone()`` if you need it longer. If the operator
        asks for further times during the iteration, those that are ready are yielded too.

        Args:
            inputs: the operator's inputs. Pass the same inputs and the same ``sequential`` in each call.
            sequential: False is faster in a loop, since rounds of several epochs overlap. Use False for operators
                without state across epochs: a time is then ready as soon as it is complete, but never before a lesser
                time. Outside of loops there is no difference.
        """
        frontiers = tuple([port.frontier for port in inputs])
        if not self._added and self._looked_at is not None and all(map(operator.is_, frontiers, self._looked_at)):
            return
        self._looked_at = None
        self._added = True
        while self._added:
            self._added = False
            for place in self._complete(frontiers, sequential and self._in_loop):
                token = self._pending.pop(place, None)
                if token is None:  # the loop's body has taken it
                    continue
                self._working_at(token.time)
                with token:
                    yield token
                if self._added:
                    break
        self._looked_at = frontiers

    def _complete(self, frontiers: tuple[Antichain, ...], sequential: bool) -> list[tuple[Time, Labels | None]]:
        found = list(self._pending)
        if sequential and found and self._pending[found[0]].domain.is_lexicographic:
            # Python's own order of integers and nested pairs of them is that of `in_order`.
            first = min((time for frontier in frontiers for time in frontier), default=None)
            found = [place for place in found if first is None or place[0] < first]
            return sorted(found, key=lambda place: place[0])
        found = [place for place in found if not any(frontier.less_equal(place[0]) for frontier in frontiers)]
        if not found:
            return found
        domain = self._pending[found[0]].domain
        if sequential:
            to_come = [time for frontier in frontiers for time in frontier]
            found = [place for place in found if all(_is_before(domain, place[0], at) for at in to_come)]
        if len(found) <= 1:
            return found
        if all(label is None for _, label in found):
            return [(time, None) for time in domain.in_order(time for time, _ in found)]
        labels: dict[Time, list[Labels | None]] = {}
        for time, label in found:
            labels.setdefault(time, []).append(label)
        return [(time, label) for time in domain.in_order(labels) for label in labels[time]]


def _is_before(domain: TimeDomain, time: Time, other: Time) -> bool:
    return domain.less_equal(time, other) or domain.in_order([time, other])[0] == time
