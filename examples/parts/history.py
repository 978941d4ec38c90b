"""Running a program of collections over a history: what is added and removed in each epoch."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, TypeAlias

import tidewheel as tw
from examples.parts.program import by_epoch, options

Changes: TypeAlias = list[tuple[Any, int]]
"""Records, each with how often it is added, below 0 if it is removed."""

Program: TypeAlias = Callable[..., tw.Collection]
"""Makes a collection of others."""


def added(records: Iterable[Any]) -> Changes:
    return [(record, 1) for record in records]


def removed(records: Iterable[Any]) -> Changes:
    return [(record, -1) for record in records]


def states(
    program: Program, *histories: list[Changes], workers: int = 1, engine: Literal["ray", "local"] = "local"
) -> list[Mapping[Any, int]]:
    """Return the result of a program at each epoch, records with their counts; each input has a history."""
    flow = tw.Dataflow("changes")
    sources: list[Any] = [tw.IterableSource([list(enumerate(history))]) for history in histories]
    inputs = [flow.source(f"input {number}", source).as_collection(diff=True) for number, source in enumerate(sources)]
    program(*inputs).changes().capture("changes")
    with tw.run(flow, workers=workers, engine=engine) as job:
        job.wait(timeout_s=120)
        changed = by_epoch(job, "changes")
    counts: Counter[Any] = Counter()
    found: list[Mapping[Any, int]] = []
    for epoch in range(max(map(len, histories))):
        for batch in changed.get(epoch, []):
            for record, count in batch:
                counts[record] += count
        found.append({record: count for record, count in counts.items() if count})
    return found


def show(description: str | None, program: Program, *histories: list[Changes]) -> None:
    """Run a program as the command line says, and print its result at each epoch."""
    chosen = options(description)
    for epoch, state in enumerate(states(program, *histories, workers=chosen.workers, engine=chosen.engine)):
        print(f"epoch {epoch}:", *sorted(state))
