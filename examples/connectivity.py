"""Connected components and hop counts of a growing graph, found by going round a loop until nothing changes.

Edges arrive in epochs, as Arrow tables of two columns ``source`` and ``target``, numbers from 0. For each epoch the
result has the nodes whose answer changed: the least node of their component, and how many hops along the edges they are
from ``start`` (null if it does not reach them). Within an epoch all workers go round together; epochs go in order.
"""

from typing import Any

import numpy as np
import pyarrow as pa

import tidewheel as tw
from graph_share import Share


def both_ways(edges: pa.Table) -> pa.Table:
    """Turn edges into arcs from each end; hops count along the forward ones only."""
    ends = [edges["source"].to_numpy().astype(np.int64), edges["target"].to_numpy().astype(np.int64)]
    forward = np.repeat([True, False], len(ends[0]))
    return pa.table({"node": np.concatenate(ends), "to": np.concatenate(ends[::-1]), "forward": forward})


def changes(edges: tw.Stream[Any], start: int) -> tw.Stream[Any]:
    """Return, for each epoch of ``edges``, tables (node, component, hops) of the nodes whose answer changed."""
    flow = edges.flow
    with flow.scope("rounds") as loop:
        arcs = edges.map_batches(both_ways).enter(loop)
        returning = loop.feedback()
        offers, answers = flow.operator(
            "improve", [arcs, returning], 2, lambda context: improve(Share(start)), exchange=["node", "node"]
        )
        returning.connect(offers)
        improved = answers.leave()
    return improved.unary("last answers", last_answers)


def improve(share: Share) -> Any:
    """Return a schedule that works off one round at a time: take arcs and offers, answer, and offer to neighbours."""
    held: dict[Any, tuple[Any, Any, list[Any], list[Any]]] = {}

    def schedule(arcs: Any, returning: Any, offers: Any, answers: Any) -> None:
        for port, kind in ((arcs, 2), (returning, 3)):
            for token, table in port:
                if token.time not in held:
                    held[token.time] = (token.retain(offers), token.retain(answers), [], [])
                held[token.time][kind].append(table)
        for time in sorted(held):
            earlier_epochs = any(other[0] < time[0] for port in (arcs, returning) for other in port.frontier)
            if earlier_epochs or arcs.frontier.less_equal(time) or returning.frontier.less_equal(time):
                break
            to_offers, to_answers, new_arcs, new_offers = held.pop(time)
            with to_offers, to_answers:
                nothing = np.empty(0, np.int64)
                starts, new = share.add(pa.concat_tables(new_arcs)) if new_arcs else (nothing, nothing)
                better = share.improve(pa.concat_tables(new_offers)) if new_offers else nothing
                answers.send(to_answers, share.answers(np.union1d(new, better)))
                offers.send(to_offers, share.offers(np.union1d(starts, better)))

    return schedule


def last_answers(context: Any) -> Any:
    """Build an operator that waits for the end of each epoch and sends each node's last answer, which is the least."""
    held: dict[int, tuple[Any, list[Any]]] = {}

    def schedule(input: Any, output: Any) -> None:
        for token, table in input:
            held.setdefault(token.time, (token.retain(), []))[1].append(table)
        for time in [time for time in held if not input.frontier.less_equal(time)]:
            token, tables = held.pop(time)
            with token:
                least = pa.concat_tables(tables).group_by("node").aggregate([("component", "min"), ("hops", "min")])
                output.send(token, least.rename_columns(["node", "component", "hops"]))

    return schedule
