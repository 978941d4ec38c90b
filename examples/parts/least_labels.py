"""Labels that spread along arcs until nothing changes: of each node, the least node from which it can be reached.

Along arcs in both directions, that is the connected component that the node is in.
"""

from typing import Any

import tidewheel as tw
from examples.parts.label_share import LabelShare

LAST_ROUND = tw.progress.IntegerDomain().maximum


def least_labels(arcs: tw.Stream[Any], loop: tw.types.Loop) -> tw.Stream[Any]:
    """Return, for the ``arcs`` (node, to) of each time, tables (node, label) of the nodes at which arcs begin.

    Arcs lead from each node, if only to itself; nodes are numbers from 0. The labels go round ``loop``, which lies in
    the scope of the arcs, and leave it when they have settled.
    """
    returned = loop.feedback()
    offers, labels = arcs.flow.operator(
        [arcs.enter(loop), returned], 2, spread, exchange=["node", "node"], name="spread"
    )
    returned.connect(offers)
    return labels.leave()


def spread(context: tw.OperatorContext) -> Any:
    """Build an operator that takes labels round by round, and sends those that have become less along the arcs."""
    shares: dict[Any, LabelShare] = context.state("shares", dict)  # by the time outside of the loop
    held: dict[Any, Any] = context.state("held", dict)
    complete, settled = context.notificator(), context.notificator()

    def schedule(arcs: Any, returned: Any, offers: Any, labels: Any) -> None:
        for kind, port in enumerate((arcs, returned)):
            for lent, table in port:
                held.setdefault(lent.time, ([], []))[kind].append(table)
                complete.notify_at(lent, offers)
                settled.notify_at(lent.delayed((lent.time[0], LAST_ROUND), labels))
        for token in complete.ready(arcs, returned, sequential=False):  # each time outside has a share of its own
            share = shares.setdefault(token.time[0], LabelShare())
            offers.send(token, share.work(*held.pop(token.time)))
        for token in settled.ready(arcs, returned, sequential=False):
            labels.send(token, shares.pop(token.time[0]).table())

    return schedule
