"""Dataflows: where streams begin."""

from collections.abc import Mapping, Sequence
from typing import Any

from tidewheel.operators.input import build_input
from tidewheel.operators.loop import Feedback, Loop, make_feedback
from tidewheel.operators.source import build_source
from tidewheel.operators.stream import Stream
from tidewheel.operators.stream_base import check_list, check_stream, make_pact
from tidewheel.progress import GraphError, PathSummary
from tidewheel.runtime.dataflow_description import DataflowDescription
from tidewheel.runtime.exchange import Key
from tidewheel.runtime.partitioned_source import PartitionedSource
from tidewheel.runtime.plan import Build


class Dataflow(DataflowDescription):
    """The description of a dataflow: streams, operators and loops. Nothing runs before `tidewheel.run`.

    >>> import tidewheel as tw
    >>> flow = tw.Dataflow("halving")
    >>> def body(numbers):
    ...     halves = numbers.map(lambda n: n // 2)
    ...     return halves.filter(lambda n: n > 1), halves.filter(lambda n: n <= 1)
    >>> _ = flow.input("numbers").iterate(body).capture("ones")
    >>> with tw.run(flow, engine="local") as job:
    ...     job.input("numbers").send([40, 9, 3])
    ...     job.input("numbers").close()
    ...     job.wait()
    ...     [batch.batch for batch in job.captured("ones")]
    [[1], [1], [1]]
    """

    def input(self, name: str) -> Stream[Any]:
        """Add a stream that the driver feeds through ``job.input(name)``."""
        self.register("input", name, self.size)
        (outlet,) = self.add_operator(f"input {name}", [], [self.root], build_input, notify=False)
        return Stream(outlet)

    def source(self, name: str, source: PartitionedSource) -> Stream[Any]:
        """Add a stream that each worker reads from its partitions of ``source``."""
        if not isinstance(source, PartitionedSource):
            raise GraphError(f"source {name!r}: {source!r} has no partitions(worker, workers) to read from")
        (outlet,) = self.add_operator(name, [], [self.root], build_source(source), notify=False)
        return Stream(outlet)

    def operator(
        self,
        name: str,
        inputs: Sequence[Stream[Any]],
        outputs: int,
        build: Build,
        summaries: Mapping[tuple[int, int], PathSummary | Sequence[PathSummary]] | None = None,
        *,
        exchange: Sequence[Key | None] | None = None,
        notify: bool = True,
    ) -> tuple[Stream[Any], ...]:
        """Add an operator of any number of ports; ``build`` returns ``schedule(*inputs, *outputs)``.

        Args:
            name: the operator's name; errors show it.
            inputs: the streams it reads, all of one scope.
            outputs: how many outputs it has, in the same scope.
            build: called once on each worker with an `OperatorContext`.
            summaries: for (input, output), what a time must go through on the way, such as
                ``PathSummary.identity(stream.nesting)``; a pair that is missing says that nothing at that input can
                come out there, so that what waits at it holds nothing back there. None: any time at any input can come
                out anywhere unchanged.
            exchange: for each input, how records are spread over the workers.
            notify: False for an operator that never looks at a frontier.
        """
        outlets = self.check_inputs(name, [check_stream(name, stream) for stream in check_list(name, "inputs", inputs)])
        scope = outlets[0].scope if outlets else self.root
        keys = check_list(name, "exchange", exchange if exchange is not None else [None] * len(outlets))
        if len(keys) != len(outlets):
            raise GraphError(f"operator {name!r} has {len(outlets)} inputs, exchange names {len(keys)} keys")
        if not isinstance(outputs, int) or outputs < 0:
            raise GraphError(f"operator {name!r}: outputs is how many there are, 0 or more, not {outputs!r}")
        paths = None if summaries is None else {ports: _paths(name, given) for ports, given in summaries.items()}
        made = self.add_operator(
            name,
            outlets,
            [scope] * outputs,
            build,
            pacts=[make_pact(name, key) for key in keys],
            summaries=paths,
            notify=notify,
        )
        return tuple(Stream(outlet) for outlet in made)

    def scope(self, name: str) -> Loop:
        """Return a loop in the outermost scope, to be entered, fed back and left by hand."""
        return Loop(self, self.root.inside(name))

    def feedback(self, advance: int = 1) -> Feedback[Any]:
        """Return the open end of a cycle in the outermost scope: what goes in comes out ``advance`` epochs later."""
        return make_feedback(self, self.root, advance)


def _paths(name: str, given: PathSummary | Sequence[PathSummary]) -> tuple[PathSummary, ...]:
    if isinstance(given, PathSummary):
        return (given,)
    if isinstance(given, list | tuple) and all(isinstance(path, PathSummary) for path in given):
        return tuple(given)
    raise GraphError(f"operator {name!r}: a summary is a PathSummary or a list of them, not {given!r}")
