"""Requests that walk a graph: each is answered when its own walk has ended, however long those of others take.

A request asks which packages of Debian one needs, directly or not. Its walk goes round a loop, from worker to worker,
for as many rounds as there are packages behind each other. All of a request is one substream: what a worker remembers
of it is dropped, and its answer leaves, exactly when nothing of it is left in the loop.
"""

import random
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import tidewheel as tw
from examples.parts.debian_graph import needs
from examples.parts.program import options

Step: TypeAlias = tuple[int, int]
"""(request, node that it has come to)."""

EPOCHS, REQUESTS = 20, 25


def answers(requests: tw.Stream[Step], graph: Callable[[], Mapping[int, list[int]]]) -> tw.Stream[tuple[int, int]]:
    """Return (request, how many nodes it reaches) for each request (number, node where it begins).

    ``graph()`` returns, on each worker, the nodes to which each node leads.
    """

    def walk(steps: tw.Stream[Step]) -> tuple[tw.Stream[Step], tw.Stream[Step]]:
        reached = steps.unary(build_visit, exchange=lambda step: step[1], bound="soft", name="visit")
        onwards = reached.flat_map(lambda step: [(step[0], node) for node in graph().get(step[1], ())])
        return onwards, reached

    walks = requests.substreams("requests", key=lambda request: request[0])
    return walks.iterate(walk).collect_substream(lambda request, steps: (request, len(steps)))


def build_visit(context: tw.OperatorContext) -> Any:
    """Let each request pass a node once; forget a request when its walk has ended."""
    visited: dict[int, set[int]] = context.state("visited", dict)

    def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
        for token, steps in input:
            seen = visited.setdefault(token.key, set())
            new = [step for step in dict.fromkeys(steps) if step[1] not in seen]
            seen.update(node for _, node in new)
            output.send(token, new)
        for request in input.ended:
            visited.pop(request, None)

    return schedule


def main() -> None:
    chosen = options(__doc__)
    chance = random.Random(1)
    nodes = sorted(needs())
    flow = tw.Dataflow("requests")
    answers(flow.input("requests"), needs).probe("answered").capture("answers")
    with tw.run(flow, workers=chosen.workers, engine=chosen.engine) as job:
        with job.input("requests") as requests:
            for epoch in range(EPOCHS):
                numbers = range(epoch * REQUESTS, (epoch + 1) * REQUESTS)
                requests.send([(number, chance.choice(nodes)) for number in numbers])
                requests.end_substream(*numbers)
                requests.advance_to(epoch + 1)
        job.wait()
        found = [answer for entry in job.captured("answers") for answer in entry.batch]
    most = max(count for _, count in found)
    print(f"{len(found)} answers; the package that needs most needs {most - 1:,} others")


if __name__ == "__main__":
    main()
