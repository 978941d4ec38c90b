"""Pathway's side of `collections/incremental.py`: connected components, in a process that may be another Python's.

The process says that it is ready, by an empty line, when it has imported Pathway. It reads one line: the file of the
first changes, that of changes one after the other, that of changes all at once, that for labels, and a number of
seconds. Changes are rows of source, target and diff. Each is sent when the one before has arrived at the labels. So
many seconds after the first ones, the rest of those one after the other are left out. It answers with a JSON list of
the seconds that each took, in order.
"""

import json
import logging
import os
import sys
import warnings
from queue import SimpleQueue
from threading import Thread
from time import monotonic, perf_counter
from typing import Any, TextIO

import numpy as np

from benchmarks.contestants.components_peers import THREADS

os.environ["PATHWAY_THREADS"] = str(THREADS)


def main() -> None:
    answers, sys.stdout = sys.stdout, sys.stderr  # what libraries print is no answer
    import pathway

    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    print(flush=True, file=answers)
    for line in sys.stdin:
        first, single, together, labels, longest_s = line.split()
        run = Run(pathway)
        seconds = [run.change(np.load(first))]
        give_up_at = monotonic() + float(longest_s)
        for change in np.load(single):
            if monotonic() > give_up_at:
                break
            seconds.append(run.change(change[None]))
        seconds.append(run.change(np.load(together)))
        np.save(labels, np.array(sorted(run.labels.items())).T)
        say(answers, seconds)


def say(answers: TextIO, seconds: list[float]) -> None:
    print(json.dumps(seconds), flush=True, file=answers)


class Run:
    """A run of Pathway in a thread of its own, to which this one sends changes."""

    def __init__(self, pw: Any) -> None:
        self.labels: dict[int, int] = {}
        self._changes: SimpleQueue[Any] = SimpleQueue()
        self._arrived: SimpleQueue[int] = SimpleQueue()
        self._sent = self._counted = 0
        queue = self._changes

        class Changes(pw.io.python.ConnectorSubject):  # type: ignore[misc]
            def run(self) -> None:
                while True:
                    for u, v, diff in queue.get().tolist():
                        self.next(u=u, v=v, sign=diff)
                    self.commit()

        schema = pw.schema_from_types(u=int, v=int, sign=int)
        changes = pw.io.python.read(Changes(), schema=schema, autocommit_duration_ms=None)
        pw.io.subscribe(labels(pw, changes), on_change=self._on_change, on_time_end=self._on_time_end)
        run = {"monitoring_level": pw.MonitoringLevel.NONE}
        Thread(target=pw.run, kwargs=run, daemon=True).start()

    def change(self, rows: Any) -> float:
        """Send changes as one commit; return how long it takes until the labels are those after it."""
        self._sent += len(rows)
        began = perf_counter()
        self._changes.put(rows)
        while self._arrived.get() < self._sent:
            pass
        return perf_counter() - began

    def _on_change(self, key: Any, row: dict[str, int], time: int, is_addition: bool) -> None:
        node, label = row["node"], row["label"]
        if node < 0:
            self._counted = max(self._counted, label) if is_addition else self._counted
        elif is_addition:
            self.labels[node] = label
        elif self.labels.get(node) == label:
            del self.labels[node]

    def _on_time_end(self, time: int) -> None:
        self._arrived.put(self._counted)


def labels(pw: Any, changes: Any) -> Any:
    """Return the label of each node, and as that of node -1 the number of changes that are in the labels."""
    edges = changes.groupby(changes.u, changes.v).reduce(changes.u, changes.v, n=pw.reducers.sum(changes.sign))
    edges = edges.filter(edges.n > 0)
    ends = pw.Table.concat_reindex(edges.select(edges.u, edges.v), edges.select(u=edges.v, v=edges.u))
    names = ends.groupby(ends.u).reduce(node=ends.u)
    # An arc from each node to itself offers it its own label, too.
    ends = pw.Table.concat_reindex(ends, names.select(u=names.node, v=names.node))
    arcs = ends.select(u=names.pointer_from(ends.u), v=names.pointer_from(ends.v))
    found = pw.iterate(step, vertices=names.select(label=names.node), arcs=arcs).vertices
    both = names.select(names.node, label=found.restrict(names).label)
    count = changes.reduce(label=pw.reducers.count())
    return pw.Table.concat_reindex(both, count.select(node=-1, label=count.label))


def step(vertices: Any, arcs: Any) -> dict[str, Any]:
    """Spread labels along arcs."""
    import pathway as pw

    offers = arcs.select(arcs.v, label=vertices.ix(arcs.u).label)
    least = offers.groupby(id=offers.v).reduce(label=pw.reducers.min(offers.label))
    return {"vertices": least.with_universe_of(vertices), "arcs": arcs}


if __name__ == "__main__":
    main()
