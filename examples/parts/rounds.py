"""A loop in whole rounds, all of an epoch before the next one enters: so what is kept may be changed in place."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, Protocol

import tidewheel as tw


class Round(NamedTuple):
    """What comes of a round: batches to go round again, each with how many rounds on, and what leaves the loop."""

    again: list[tuple[int, Any]]
    leaving: Any


class Share(Protocol):
    """What one worker keeps from round to round."""

    def work(self, number: int, entered: list[Any], returned: list[Any]) -> Round:
        """Work off a round: the batches that have entered the loop, in round 0, and those that have come round."""


def go_round(epochs: tw.Stream[Any], name: str, make: Callable[[], Share], keys: list[Any]) -> tw.Stream[Any]:
    """Send ``epochs`` into a loop whose operator keeps ``make()`` on each worker; return the stream of what leaves.

    The operator is called ``name``; ``keys`` says by what it exchanges what enters and what comes round.
    """
    done = epochs.flow.feedback()  # sends nothing, but its frontier is an epoch ahead of the loop's
    with epochs.flow.scope(name) as loop:
        # While the loop has work of an epoch, something of the next one could come: so that cannot be complete before.
        entered, returned = epochs.concat(done).enter(loop), loop.feedback()
        build = partial(rounds, make=make)
        again, leaving = epochs.flow.operator([entered, returned], 2, build, exchange=keys, name=name)
        returned.connect(again)
    left = leaving.leave()
    done.connect(left.map_batches(lambda batch: batch[:0]))  # what is empty is not sent
    return left


def rounds(context: tw.OperatorContext, make: Callable[[], Share]) -> Any:
    """Build an operator that hands each round, once it is complete, to what it keeps."""
    share = context.state("share", make)
    held: dict[Any, Any] = context.state("held", dict)
    to_go_round, to_leave = context.notificator(), context.notificator()  # a token is for one output

    def schedule(entered: Any, returned: Any, again: Any, leaving: Any) -> None:
        for kind, port in enumerate((entered, returned)):
            for lent, batch in port:
                held.setdefault(lent.time, ([], []))[kind].append(batch)
                to_go_round.notify_at(lent, again)
                to_leave.notify_at(lent, leaving)
        left = {}
        for token in to_go_round.ready(entered, returned):
            epoch, number = token.time
            offers, left[token.time] = share.work(number, *held.pop(token.time))
            for rounds_on, batch in offers:
                with token.delayed((epoch, number + rounds_on - 1)) as later:
                    again.send(later, batch)
        for token in to_leave.ready(entered, returned):
            leaving.send(token, left[token.time])

    return schedule
