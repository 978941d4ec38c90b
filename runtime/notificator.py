"""Times that an operator waits for, each with the token that lets it send then."""

from collections.abc import Callable, Iterator

from tidewheel.progress import Antichain, Time
from tidewheel.runtime.ports import InputPort, OutputPort
from tidewheel.runtime.tokens import LentToken, TimestampToken


class Notificator:
    """Tells an operator, once for each time that it asked for, that nothing can arrive any more at that time.

    It holds a token for each of these times, which is what keeps the time open for those who come after.
    Get one by ``context.notificator()``.

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
    >>> _ = flow.input("numbers").unary("sort", build).capture("sorted")
    >>> with tw.run(flow, engine="local") as job:
    ...     with job.input("numbers") as numbers:
    ...         numbers.send([3, 1])
    ...         numbers.send([2])
    ...     job.wait()
    ...     job.captured("sorted")
    [Captured(time=0, batch=[1, 2, 3])]

    Source: Naiad (SOSP 2013), section 2.2, ``NotifyAt``; timely dataflow's ``FrontierNotificator``.
    """

    __slots__ = ("_added", "_looked_at", "_pending", "_working_at")

    def __init__(self, working_at: Callable[[Time], None] = lambda time: None) -> None:
        self._pending: dict[Time, TimestampToken] = {}
        self._looked_at: tuple[Antichain, ...] = ()
        self._added = False
        self._working_at = working_at

    @property
    def times(self) -> tuple[Time, ...]:
        """The times that are waited for, in the order in which they were asked for."""
        return tuple(self._pending)

    def __contains__(self, time: Time) -> bool:
        return time in self._pending

    def notify_at(self, token: TimestampToken | LentToken, output: OutputPort | None = None) -> None:
        """Have `ready` return a token for this token's time, once; asking again for the same time changes nothing.

        Args:
            token: one lent with a message is retained; one of the operator's own, such as of ``delayed(time)``, is
                taken over and must not be used by the caller any more.
            output: for which output a lent token is retained; by default the only one.

        Raises:
            TokenError: the token has been discarded or was lent for a call that is over.
        """
        time = token.time
        if time in self._pending:
            if isinstance(token, TimestampToken) and token is not self._pending[time]:
                token.discard()
            return
        self._pending[time] = token.retain(output) if isinstance(token, LentToken) else token
        self._added = True

    def ready(self, *inputs: InputPort) -> Iterator[TimestampToken]:
        """Yield a token for each time that can arrive at none of ``inputs`` any more, none before one that is less.

        The token is discarded when the next one is asked for; ``clone()`` keeps one. Times asked for meanwhile are
        yielded too, if they are ready.
        """
        frontiers = tuple([port.frontier for port in inputs])
        if not self._added and all(map(_is, frontiers, self._looked_at)):
            return
        self._looked_at = frontiers
        self._added = True
        while self._added:
            self._added = False
            for time in self._complete(frontiers):
                token = self._pending.pop(time)
                self._working_at(time)
                with token:
                    yield token
                if self._added:
                    break

    def _complete(self, frontiers: tuple[Antichain, ...]) -> list[Time]:
        found = [time for time in self._pending if not any(frontier.less_equal(time) for frontier in frontiers)]
        if len(found) <= 1:
            return found
        return self._pending[found[0]].domain.in_order(found)


def _is(one: Antichain, other: Antichain) -> bool:
    return one is other
