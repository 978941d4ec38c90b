"""Dataflows, where streams begin."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import UnionType
from typing import Any, overload

from tidewheel.batches.batches import is_schema
from tidewheel.operators.base.stream_base import (
    Record,
    caught_by,
    check_list,
    check_positive,
    check_stream,
    make_pact,
    make_paths,
)
from tidewheel.operators.dead_letters import DeadLetters
from tidewheel.operators.sources.contract import Source
from tidewheel.operators.sources.inline_source import InlineBuild
from tidewheel.operators.sources.input import InputBuild, Schema, check_for
from tidewheel.operators.sources.partition_epochs import EpochRule
from tidewheel.operators.sources.source_operators import SourceOperators
from tidewheel.operators.stream import Feedback, Loop, Stream
from tidewheel.operators.substreams.substream_operators import Bound, ends_wanted
from tidewheel.progress import GraphError, PathSummary, TimeDomain
from tidewheel.pubsub.messages.delivery_options import BLOCK_LIMIT_S, DeliveryOptions, Slow, Where
from tidewheel.pubsub.messages.topic_schema import topic_schema
from tidewheel.pubsub.publications.telemetry_topic import TelemetryTopic
from tidewheel.runtime.description.dataflow_description import DataflowDescription, Described
from tidewheel.runtime.description.origin import adds_operators
from tidewheel.runtime.description.pacts import Key
from tidewheel.runtime.description.plan import Build


class Dataflow(Described):
    """The description of a dataflow: streams, operators and loops. Nothing runs before `tidewheel.run`.

    Args:
        name: the dataflow's name, for people.
        domain: the times of its epochs; integers from 0 by default.

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

    __slots__ = ()

    def __init__(self, name: str, domain: TimeDomain | None = None) -> None:
        super().__init__(DataflowDescription(name, domain, TelemetryTopic()))

    @overload
    def input(self, name: str) -> Stream[Any]: ...
    @overload
    def input(self, name: str, records: type[Record], *, dead_letters: DeadLetters | None = None) -> Stream[Record]: ...
    @overload
    def input(
        self, name: str, records: Schema, *, dead_letters: DeadLetters | None = None
    ) -> Stream[dict[str, Any]]: ...
    @overload
    def input(self, name: str, records: UnionType, *, dead_letters: DeadLetters | None = None) -> Stream[Any]: ...
    @adds_operators("dead_letters")
    def input(self, name: str, records: Any = None, *, dead_letters: DeadLetters | None = None) -> Stream[Any]:
        """Add a stream that the driver feeds through ``job.input(name)``.

        Args:
            name: the input's name.
            records: the type of the records, for which ``send`` checks a sample (a row of Arrow is a dict), or a
                `pyarrow.Schema` that each batch must have. None accepts anything.
            dead_letters: receives records of another type, each with a TypeError. Workers then check records when they
                receive them, and ``send`` does not raise.

        >>> import tidewheel as tw
        >>> flow = tw.Dataflow("lengths")
        >>> _ = flow.input("words", str).map(len).capture("lengths")
        >>> with tw.run(flow, engine="local") as job:
        ...     with job.input("words") as words:
        ...         words.send(["to", "be"])
        ...     job.wait()
        ...     job.captured("lengths")
        [Captured(time=0, batch=[2, 2])]
        """
        caught_by(self._description, f"input {name!r}", dead_letters)
        check = check_for(name, records)
        if check is None and dead_letters is not None:
            raise GraphError(f"input {name!r}: dead_letters= needs a type of records, such as int, to check them")
        self._description.register("input", name, self._description.size)
        if check is None or dead_letters is None:
            return self._begin(f"input {name}", InputBuild(check), records)
        came = self._begin(f"input {name}", InputBuild(), records)
        return came._setting_aside(f"check {name}", check.divide, dead_letters, schema=came.schema)

    @adds_operators("paced_by", "epochs_ahead", "epoch_every_s", "epoch_records", "dead_letters")
    def source(
        self,
        name: str,
        source: Source[Record],
        *,
        paced_by: str | None = None,
        epochs_ahead: int = 1,
        epoch_every_s: float | None = None,
        epoch_records: int | None = None,
        dead_letters: DeadLetters | None = None,
    ) -> Stream[Record]:
        """Add a stream that each worker reads from its partitions of ``source``.

        Sources wait while more bytes are in flight than `RuntimeConfig` allows.

        A `Source` may assign epochs to its records. Otherwise all its partitions have common epochs: a partition that
        begins an epoch advances the others, idle ones too. By default each unit that the source yields, such as a batch
        or a transaction, ends an epoch; a unit is never divided.

        Args:
            name: the operator's name.
            source: a `FileSource`, `RecordSource`, `IterableSource`, `ParquetSource`, `TickSource`, `QueueSource`
                or `ReplaySource`, or your own `Source`.
            paced_by: the name of a probe of this dataflow. No partition begins an epoch while ``epochs_ahead`` of its
                epochs are incomplete at the probe.
            epochs_ahead: the number of epochs for ``paced_by``; with 1, one epoch runs after the other. Operators that
                need several epochs to complete one, such as windows, need more.
            epoch_every_s: for a `Source` that assigns no epochs: begin an epoch every so many seconds.
            epoch_records: for such a source: a partition ends the epoch once it has read at least so many records of
                it, after a whole unit.
            dead_letters: receives everything that the source cannot turn into a record, such as a line that is not
                JSON. Without it, such an error fails the job.

        Raises:
            GraphError: an argument is wrong, or the source cannot be pickled.

        >>> import tidewheel as tw
        >>> flow = tw.Dataflow("lengths")
        >>> _ = flow.source("words", tw.IterableSource([[(0, ["to", "be"])]])).map(len).capture("lengths")
        >>> with tw.run(flow, engine="local") as job:
        ...     job.wait()
        ...     job.captured("lengths")
        [Captured(time=0, batch=[2, 2])]
        """
        check_positive(f"source {name!r}", "epochs_ahead", epochs_ahead)
        caught = caught_by(self._description, f"source {name!r}", dead_letters)
        rule = EpochRule(epoch_every_s, epoch_records)
        operators = SourceOperators(name, source, rule, paced_by, epochs_ahead, caught)
        operators.check(self._description)
        stream = Stream[Any](self, operators.add(self._description))
        return stream if dead_letters is None else stream._without_letters(name, dead_letters)

    @overload
    def inbox(self, name: str, *, epoch_every_s: float | None = None, capacity_bytes: int = ...) -> Stream[Any]: ...
    @overload
    def inbox(
        self, name: str, records: type[Record], *, epoch_every_s: float | None = None, capacity_bytes: int = ...
    ) -> Stream[Record]: ...
    @overload
    def inbox(
        self, name: str, records: Schema, *, epoch_every_s: float | None = None, capacity_bytes: int = ...
    ) -> Stream[dict[str, Any]]: ...
    @overload
    def inbox(
        self, name: str, records: UnionType, *, epoch_every_s: float | None = None, capacity_bytes: int = ...
    ) -> Stream[Any]: ...
    @adds_operators("epoch_every_s", "capacity_bytes")
    def inbox(
        self,
        name: str,
        records: Any = None,
        *,
        epoch_every_s: float | None = None,
        capacity_bytes: int = 8 << 20,
    ) -> Stream[Any]:
        """Add a stream of the records that any process of the cluster sends, by the names of job and input.

        Processes send by ``tidewheel.job(...).input(name).send(...)``, or over HTTP through ``tidewheel serve
        --ingest``. Each worker has a share of the inbox. No sender holds a token: the job makes the epochs, so a sender
        may come and go. The inbox ends with the job, by `Job.stop`.

        A job that returns to a snapshot goes on after the records in the snapshot. Senders are told, and send the later
        records again. Records sent twice with the same ``key`` count once; the snapshot remembers keys for a day.

        Args:
            name: the input's name.
            records: the type of the records, or a `pyarrow.Schema`; None accepts anything. JSON is converted to the
                type, for instance to a dataclass.
            epoch_every_s: begin an epoch every so many seconds; by default a worker ends one each time it finds
                records.
            capacity_bytes: the limit, in bytes, of records that wait on each worker to be read; by default 8 MiB.

        Raises:
            GraphError: an argument is wrong.

        >>> import tidewheel as tw
        >>> flow = tw.Dataflow("fraud")
        >>> _ = flow.inbox("payments", int).probe("done").capture("payments")
        >>> with tw.run(flow, engine="local") as job:
        ...     payments = tw.job("fraud").input("payments")
        ...     for _ in range(2):
        ...         _ = payments.send([20, 30], key="order 17")
        ...     job.probe("done").wait_until(1, timeout_s=10)
        ...     job.captured("payments")
        ...     job.stop()
        [Captured(time=0, batch=[20, 30])]
        """
        from tidewheel.operators.sources.inbox import Inbox, OnceBuild, route_of

        came = self.source(name, Inbox(name, records, capacity_bytes), epoch_every_s=epoch_every_s)
        return came._unary(f"{name}: once", OnceBuild(), route_of, notify=False)

    def from_topic(
        self,
        topic: str,
        *,
        timeout_s: float | None = 60.0,
        atomic: bool = True,
        where: Callable[[Any], object] | Any = None,
        slow: Slow = "block",
        block_limit_s: float = BLOCK_LIMIT_S,
        schema: Any = None,
        name: str | None = None,
    ) -> Stream[Any]:
        """Add a stream of the epochs that another job publishes, from the moment of the subscription on.

        The stream has the times of the topic. A time is complete when it is complete in the topic, and the stream ends
        when the topic ends. All records arrive on worker 0; `rebalance`, or an operator with a key, spreads them.
        Either job may start first. If the publishing job fails, this job fails, too, but not the reverse. Ends of
        substreams do not arrive with the topic; `substreams` divides the stream again. If the publishing job keeps
        snapshots, each epoch arrives as a whole. If this job continues from a snapshot, it misses epochs and logs a
        warning.

        Args:
            topic: its name.
            timeout_s: how long to wait for the topic to exist, in seconds; None waits forever.
            atomic: True to leave out an epoch that was published in part before the subscription.
            where: the condition on records, as for `tidewheel.subscribe`.
            slow: the reaction when this job falls behind. ``"block"`` holds back the other job, ``"drop_epochs"``
                leaves out whole epochs, ``"disconnect"`` fails this job. A topic with exactly-once delivery keeps
                messages in its log, and holds no job back.
            block_limit_s: the seconds after which this job fails if it holds back the other and receives nothing.
            schema: the expected type or `pyarrow.Schema` of the records; other records fail this job.
            name: the operator's name.

        Raises:
            GraphError, DeliveryError: an argument is wrong. Later errors fail the job.

        >>> import tidewheel as tw
        >>> first, second = tw.Dataflow("first"), tw.Dataflow("second")
        >>> _ = first.input("words").publish("words for others")
        >>> _ = second.from_topic("words for others").map(str.upper).capture("upper")
        >>> with tw.run(first, engine="local") as one, tw.run(second, engine="local") as other:
        ...     one.topic("words for others").wait_for_subscribers(1, timeout_s=10)
        ...     with one.input("words") as words:
        ...         words.send(["tide", "wheel"])
        ...     other.wait(timeout_s=10)
        ...     other.captured("upper")
        [Captured(time=0, batch=['TIDE', 'WHEEL'])]
        """
        from tidewheel.operators.sources.topic_source import TopicSource
        from tidewheel.pubsub.subscribers.subscribing import subscribe

        if not isinstance(topic, str) or not topic:
            raise GraphError(f"from_topic takes the name of a topic, not {topic!r}")
        DeliveryOptions(None if where is None else Where(where), slow, block_limit_s)
        if schema is not None:
            topic_schema(schema)
        join = partial(
            subscribe, topic, atomic=atomic, where=where, slow=slow, block_limit_s=block_limit_s, schema=schema
        )
        source = TopicSource(topic, self._description.root.nesting.domain, join, timeout_s)
        return self._begin(name or f"from_topic {topic}", InlineBuild(source, None, 1), schema)

    def _begin(self, name: str, build: Build, records: Any = None) -> Stream[Any]:
        description = self._description
        (outlet,) = description.add_operator(name, [], [description.root], build, notify=False)
        return Stream(self, outlet, records if is_schema(records) else None)

    @adds_operators()
    def operator(  # noqa: PLR0913 - the properties of an operator, one by one
        self,
        inputs: Sequence[Stream[Any]],
        outputs: int,
        build: Build,
        summaries: Mapping[tuple[int, int], PathSummary | Sequence[PathSummary]] | None = None,
        *,
        name: str,
        exchange: Sequence[Key | None] | None = None,
        notify: bool = True,
        bound: Bound | None = None,
        ordered: bool = False,
    ) -> tuple[Stream[Any], ...]:
        """Add an operator with any number of ports; ``build`` returns its function ``schedule(*inputs, *outputs)``.

        Args:
            inputs: the streams it reads, all of one scope.
            outputs: how many outputs it has, in the same scope.
            build: called once on each worker with an `OperatorContext`.
            summaries: for each pair (input, output), the change of times between them, such as
                ``PathSummary.identity(stream.nesting)``; it must not decrease times. A missing pair says that the
                input's messages never lead to messages on the output, so they hold back nothing downstream of it. By
                default a time at any input can leave by any output unchanged.
            name: the operator's name.
            exchange: for each input, the key by which records are exchanged among workers, or None.
            notify: False for an operator that never looks at a frontier.
            bound: how the operator learns the ends of substreams, as for `Stream.unary`.
            ordered: whether it learns the ends in order, as for `Stream.unary`.

        >>> import tidewheel as tw
        >>> def build(context):
        ...     def schedule(numbers, evens, odds):
        ...         for token, batch in numbers:
        ...             evens.send(token, [n for n in batch if n % 2 == 0])
        ...             odds.send(token, [n for n in batch if n % 2])
        ...
        ...     return schedule
        >>> flow = tw.Dataflow("sorting out")
        >>> evens, odds = flow.operator([flow.input("numbers")], 2, build, notify=False, name="split")
        >>> _ = evens.capture("evens")
        >>> with tw.run(flow, engine="local") as job:
        ...     with job.input("numbers") as numbers:
        ...         numbers.send([1, 2, 3, 4])
        ...     job.wait()
        ...     job.captured("evens")
        [Captured(time=0, batch=[2, 4])]
        """
        description = self._description
        outlets = [check_stream(name, stream) for stream in check_list(name, "inputs", inputs)]
        description.check_inputs(name, outlets)
        scope = outlets[0].scope if outlets else description.root
        keys = check_list(name, "exchange", exchange if exchange is not None else [None] * len(outlets))
        if len(keys) != len(outlets):
            raise GraphError(f"operator {name!r} has {len(outlets)} inputs, exchange names {len(keys)} keys")
        check_positive(f"operator {name!r}", "outputs", outputs, least=0)
        paths = None if summaries is None else {ports: make_paths(name, given) for ports, given in summaries.items()}
        made = description.add_operator(
            name,
            outlets,
            [scope] * outputs,
            build,
            pacts=[make_pact(name, key) for key in keys],
            summaries=paths,
            notify=notify,
            by_substream=ends_wanted(name, bound, ordered=ordered),
        )
        return tuple(Stream(self, outlet)._for_effect() for outlet in made)

    def dead_letters(
        self, name: str = "dead letters", catch: type[Exception] | tuple[type[Exception], ...] = Exception
    ) -> DeadLetters:
        """Return a stream of the records that operators and sources set aside, instead of failing the job.

        Pass it to any operator or source as ``dead_letters=letters``. If a function raises for a record, that operator
        then sends a `FailedRecord` to this stream, at the time of the record. The stream is like any other: publish it,
        write it to files, or capture it. Several operators may share it, in loops too.

        Args:
            name: its name.
            catch: the exception, or a tuple of exceptions, for which a record is set aside; any other fails the job.

        >>> import tidewheel as tw
        >>> flow = tw.Dataflow("parsing")
        >>> letters = flow.dead_letters()
        >>> texts = flow.source("texts", tw.IterableSource([[(0, ["6", "two", "0"])]]))
        >>> numbers = texts.map(int, dead_letters=letters, name="parse")
        >>> _ = numbers.map(lambda n: 12 // n, dead_letters=letters, name="divide").capture("results")
        >>> _ = letters.map(lambda letter: (letter.record, letter.error, letter.where)).capture("letters")
        >>> with tw.run(flow, engine="local") as job:
        ...     job.wait()
        ...     [result for captured in job.captured("results") for result in captured.batch]
        ...     [letter for captured in job.captured("letters") for letter in captured.batch]
        [2]
        [('two', 'ValueError', 'parse'), (0, 'ZeroDivisionError', 'divide')]
        """
        caught = catch if isinstance(catch, tuple) else (catch,)
        if not (caught and all(isinstance(kind, type) and issubclass(kind, Exception) for kind in caught)):
            raise GraphError(f"dead_letters: catch is an exception class, or a tuple of some, not {catch!r}")
        return DeadLetters(self, name, caught)

    def scope(self, name: str) -> Loop:
        """Return a loop in the outermost scope, to enter, feed back and leave by hand.

        >>> import tidewheel as tw
        >>> flow = tw.Dataflow("doubling")
        >>> with flow.scope("loop") as loop:
        ...     back = loop.feedback()
        ...     numbers = flow.input("numbers", int).enter(loop).concat(back)
        ...     back.connect(numbers.map(lambda n: 2 * n).filter(lambda n: n < 10))
        ...     _ = numbers.leave().capture("doubled")
        >>> with tw.run(flow, engine="local") as job:
        ...     with job.input("numbers") as handle:
        ...         handle.send([3])
        ...     job.wait()
        ...     job.captured("doubled")
        [Captured(time=0, batch=[3]), Captured(time=0, batch=[6])]
        """
        return Loop(self, self._description.root.inside(name))

    def feedback(self, advance: int = 1, *, name: str = "feedback") -> Feedback[Any]:
        """Return the open end of a cycle in the outermost scope; records come back ``advance`` epochs later.

        >>> import tidewheel as tw
        >>> flow = tw.Dataflow("halving")
        >>> back = flow.feedback()
        >>> numbers = flow.input("numbers", int).concat(back)
        >>> back.connect(numbers.map(lambda n: n // 2).filter(bool))
        >>> _ = numbers.capture("numbers")
        >>> with tw.run(flow, engine="local") as job:
        ...     with job.input("numbers") as handle:
        ...         handle.send([5])
        ...     job.wait()
        ...     job.captured("numbers")
        [Captured(time=0, batch=[5]), Captured(time=1, batch=[2]), Captured(time=2, batch=[1])]
        """
        return Loop(self, self._description.root).feedback(advance, name=name)

    def explain(self, *, fused: bool = False) -> str:
        """Return the dataflow as text: each operator with its inputs, indented by scope.

        ``<-`` is an edge on which records stay on their worker; ``<=`` is an edge that exchanges them, with its pact.
        `Job.explain` says why a job waits.

        Args:
            fused: whether to show fused operators as one.

        >>> flow = Dataflow("doubling")
        >>> def body(numbers):
        ...     return numbers.filter(lambda n: n < 8).map(lambda n: 2 * n), numbers.exchange("key")
        >>> _ = flow.input("numbers").iterate(body).probe("done")
        >>> print(flow.explain())
        dataflow 'doubling'
          input numbers
          scope 'iterate'
            iterate/enter     <- input numbers
            iterate/feedback  <- iterate/map (goes back)
            iterate/concat    <- iterate/enter, <- iterate/feedback
            iterate/filter    <- iterate/concat
            iterate/map       <- iterate/filter
            iterate/exchange  <= iterate/concat (by 'key')
            leave             <- iterate/exchange  [probe 'done']
        """
        from tidewheel.runtime.description.outline import text_of

        return text_of(self._description.outline(), fused=fused)

    def to_mermaid(self) -> str:
        """Return the dataflow as a Mermaid flowchart, which GitHub and many editors draw.

        Scopes are boxes; exchanges are thick edges, feedback is dotted.

        >>> flow = Dataflow("words")
        >>> _ = flow.input("lines").flat_map(str.split).exchange(str.lower).capture("words")
        >>> print(flow.to_mermaid())
        flowchart TD
          n0(["input lines"])
          n1["flat_map"]
          n2["exchange"]
          n3[["capture words"]]
          n0 --> n1
          n1 ==>|"by str.lower"| n2
          n2 --> n3
        """
        from tidewheel.runtime.drawing.mermaid import mermaid_of

        return mermaid_of(self._description.outline())

    def __repr__(self) -> str:
        return f"<Dataflow {self._description.name!r} of {self._description.size} operators>"

    def _repr_html_(self) -> str:
        from tidewheel.runtime.drawing.picture import picture_of

        return picture_of(self._description.outline())
