"""The context of an operator on its worker, for its build function."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from tidewheel.progress import Antichain, GraphError
from tidewheel.runtime.description.pacts import Pact
from tidewheel.runtime.description.shards import owners_of
from tidewheel.runtime.errors import TokenError
from tidewheel.runtime.messages.labels import EndOfSubstream
from tidewheel.runtime.state.operator_state import Merge, Migrate, Owners, Split
from tidewheel.runtime.tokens.notificator import Notificator
from tidewheel.runtime.tokens.timestamp_token import LentToken, TimestampToken
from tidewheel.runtime.worker.agenda import Agenda
from tidewheel.runtime.worker.operator_host import OperatorHost
from tidewheel.runtime.worker.operator_instance import OperatorInstance
from tidewheel.runtime.worker.substream_ports import SubstreamOutput


class Activator:
    """Schedules one operator on one worker, from any thread, even if no message has arrived.

    >>> from tidewheel import Dataflow, run
    >>> def build(context):
    ...     token, left = context.token(), [3, 2, 1]
    ...
    ...     def schedule(output):
    ...         output.send(token, [left.pop(0)])
    ...         if left:
    ...             context.activator.after(0.01)
    ...         else:
    ...             token.discard()
    ...
    ...     return schedule
    >>> flow = Dataflow("countdown")
    >>> [numbers] = flow.operator([], 1, build, name="countdown")
    >>> _ = numbers.capture("numbers")
    >>> with run(flow, engine="local") as job:
    ...     job.wait()
    ...     [entry.batch for entry in job.captured("numbers")]
    [[3], [2], [1]]
    """

    __slots__ = ("_agenda", "_operator")

    def __init__(self, agenda: Agenda, operator: int) -> None:
        self._agenda = agenda
        self._operator = operator

    def __call__(self) -> None:
        """Schedule the operator in the worker's next step."""
        self._agenda.activate_later(self._operator)

    def after(self, seconds: float) -> None:
        """Schedule the operator after ``seconds``, unless the job ends earlier.

        Raises:
            ValueError: ``seconds`` is negative or not a number.
        """
        if not seconds >= 0:
            raise ValueError(f"an operator can be scheduled after some seconds, 0 or more, not after {seconds!r}")
        self._agenda.activate_after(self._operator, seconds)


State = TypeVar("State")


class OperatorContext:
    """One operator on one worker, for its build function.

    Attributes:
        name: the operator's name.
        worker: the number of this worker, from 0.
        workers: the number of workers.
        nodes: the id of each worker's Ray node, so that a source can read the data on its node. The ids are empty on
            the local engine, and in a job with snapshots, whose workers may move.
        activator: schedules this operator from any thread, now or later.
    """

    def __init__(self, host: OperatorHost, instance: OperatorInstance, nodes: Sequence[str]) -> None:
        self.name = instance.name
        self.worker = host.worker
        self.workers = host.workers
        self.nodes = nodes
        self.activator = Activator(host.agenda, instance.number)
        self._host = host
        self._instance = instance

    def token(self, output: int = 0) -> TimestampToken:
        """Return the initial token of an output, at the minimum time.

        If build does not call this, the token is discarded.

        A restored operator has no initial token. So ask for it where state is made: ``token = context.state("token",
        context.token)``.

        Raises:
            TokenError: there is no such output, its token was taken or discarded, or the operator is restored.
        """
        initial = self._instance.initial
        if not 0 <= output < len(initial):
            raise TokenError(f"operator {self.name!r} has {len(initial)} outputs, there is no output {output}")
        token = initial[output]
        if self._instance.kept.is_restored and self._instance.mailbox is None:
            raise TokenError(
                f"operator {self.name!r} goes on from a snapshot, so it has no initial token. Keep the token in a "
                "state, which has it again: context.state('token', context.token)"
            )
        if token is None:
            raise TokenError(
                f"operator {self.name!r}: the initial token of output {output} was taken already, or build has returned"
            )
        initial[output] = None
        return token

    def state(
        self,
        name: str,
        make: Callable[[], State],
        *,
        split: Split | None = None,
        merge: Merge | None = None,
        migrate: Migrate = (),
    ) -> State:
        """Return this operator's state ``name`` on this worker, or ``make()`` if it is new.

        Snapshots have this state, but not the variables of the build function. The operator changes the state in place.
        The state must be picklable, and may contain tokens, each once. Use `keyed_state` for state by key.

        Args:
            name: the state's name in snapshots, unique in the operator.
            make: returns the initial state; not called if a snapshot has the state.
            split: called when a job restarts with another number of workers: ``split(state, workers)`` returns one part
                for each worker, None for no part. Without ``split`` such a restart is refused, unless the state on all
                workers is as ``make`` returns it. Records in flight over an exchange go to their new workers. Each
                worker then has all tokens of the notificator, which may report times without records.
            merge: ``merge(one, other)`` merges two parts.
            migrate: one function for each change of the state's form, oldest first: ``function(old)`` returns the new
                form, with the same tokens. Each function is called once, since a snapshot stores how many were applied.

        Raises:
            GraphError: the name is not a string, or is empty, longer than 200 characters, or has a control character.
            SnapshotError: the state in a snapshot cannot be read, converted or divided.

        >>> from tidewheel import Dataflow, run
        >>> def build(context):
        ...     counts = context.state("counts", dict)
        ...
        ...     def schedule(input, output):
        ...         for token, batch in input:
        ...             for word in batch:
        ...                 counts[word] = counts.get(word, 0) + 1
        ...             output.send(token, [dict(counts)])
        ...
        ...     return schedule
        >>> flow = Dataflow("counting")
        >>> _ = flow.input("words").unary(build, name="count").capture("counts")
        >>> with run(flow, engine="local") as job:
        ...     with job.input("words") as words:
        ...         words.send(["a", "b", "a"])
        ...     job.wait()
        ...     job.captured("counts")
        [Captured(time=0, batch=[{'a': 2, 'b': 1}])]
        """
        return self._instance.kept.state(name, make, split, merge, migrate)

    def keyed_state(
        self,
        name: str,
        make: Callable[[], Any] | None = None,
        *,
        owners: Owners | None = None,
        migrate: Migrate = (),
    ) -> dict[Any, Any]:
        """Return this operator's state ``name`` by key on this worker; at first an empty mapping.

        A snapshot writes only the keys that have changed since the last snapshot. When the number of workers changes,
        the keys are divided anew, so they must be the keys by which records are exchanged. To change a value in place,
        read it from the mapping in the same call of the operator. Values may contain tokens, each once.

        Args:
            name: the state's name in snapshots, unique in the operator.
            make: makes the value when a missing key is read, as in `collections.defaultdict`.
            owners: ``owners(keys, workers)`` returns the worker of each key; by default that of an exchange by the key.
            migrate: as for `state`; each function converts one value.

        >>> from tidewheel import Dataflow, run
        >>> def build(context):
        ...     counts = context.keyed_state("counts", int)
        ...
        ...     def schedule(input, output):
        ...         for token, batch in input:
        ...             for word in batch:
        ...                 counts[word] += 1
        ...             output.send(token, [(word, counts[word]) for word in dict.fromkeys(batch)])
        ...
        ...     return schedule
        >>> flow = Dataflow("counting")
        >>> _ = flow.input("words").unary(build, exchange=lambda word: word, name="count").capture("counts")
        >>> with run(flow, engine="local") as job:
        ...     with job.input("words") as words:
        ...         words.send(["a", "b", "a"])
        ...     job.wait()
        ...     job.captured("counts")
        [Captured(time=0, batch=[('a', 2), ('b', 1)])]
        """
        return self._instance.kept.keyed(name, make, owners=owners or owners_of, migrate=migrate)

    def notificator(self) -> Notificator:
        """Return a new `Notificator`, which tells the operator when times are complete."""
        made = Notificator(self._instance.work_at, in_loop=self._instance.in_loop)
        return self._instance.kept.add(made)

    def activate(self) -> None:
        """Schedule the operator in the worker's next step, from any thread, even if no message has arrived."""
        self.activator()

    def expect_activation(self) -> None:
        """Declare that another thread will call `activate`. The declaration holds until the next call of the operator.

        A local job then waits, instead of raising that no work is left. Messages that the operator leaves unread until
        then hold back the sources.

        >>> import threading
        >>> import tidewheel as tw
        >>> def build(context):
        ...     done = []
        ...
        ...     def work(token, numbers):
        ...         done.append((token, [sum(numbers)]))
        ...         context.activate()
        ...
        ...     def schedule(input, output):
        ...         for lent, batch in input:
        ...             threading.Thread(target=work, args=[lent.retain(), batch]).start()
        ...             context.expect_activation()
        ...         while done:
        ...             token, batch = done.pop()
        ...             with token:
        ...                 output.send(token, batch)
        ...
        ...     return schedule
        >>> flow = tw.Dataflow("threaded")
        >>> _ = flow.source("numbers", tw.IterableSource([[(0, [1, 2])]])).unary(build, name="sum").capture("sums")
        >>> with tw.run(flow, engine="local") as job:
        ...     job.wait()
        ...     job.captured("sums")
        [Captured(time=0, batch=[3])]
        """
        self._host.agenda.expected[self._instance.number] = bool(self._instance.inputs)

    def end_substream(self, token: TimestampToken | LentToken, *keys: Any) -> None:
        """Promise that no operator sends more records of these keys' substreams.

        Call this in the operator directly before ``stream.substreams(name, key=...)``. Records that the operator has
        already sent still belong to the substreams.

        Args:
            token: a token with which the operator can send.
            keys: keys, as ``key=`` of ``substreams`` makes them.

        Raises:
            TokenError: the token cannot send, or is not a token.
            GraphError: no stream of this operator is divided directly after the operator.

        >>> import tidewheel as tw
        >>> def build(context):
        ...     def schedule(input, output):
        ...         for token, lines in input:
        ...             output.send(token, [line for line in lines if line != ("a", "end")])
        ...             if ("a", "end") in lines:
        ...                 context.end_substream(token, "a")
        ...
        ...     return schedule
        >>> flow = tw.Dataflow("sessions")
        >>> lines = flow.input("lines").unary(build, name="read").substreams("sessions", key=lambda line: line[0])
        >>> _ = lines.collect_substream(lambda session, lines: [text for _, text in lines]).capture("sessions")
        >>> with tw.run(flow, engine="local") as job:
        ...     with job.input("lines") as handle:
        ...         handle.send([("a", "hello"), ("a", "goodbye"), ("a", "end")])
        ...     job.wait()
        ...     job.captured("sessions")
        [Captured(time=0, batch=[['hello', 'goodbye']])]
        """
        given: object = token
        if not isinstance(given, TimestampToken | LentToken):
            raise TokenError(
                f"operator {self.name!r}: end_substream(token, *keys) takes a token first, with which the operator "
                f"can send, not {given!r}"
            )
        marks = list(map(EndOfSubstream, keys))
        outputs = [output for output in self._instance.outputs if isinstance(output, SubstreamOutput)]
        are_sent = [output.send_marks(token, marks) for output in outputs]
        if not any(are_sent):
            raise GraphError(
                f"operator {self.name!r} ends a substream, but nothing right behind it divides what it sends: "
                "call substreams(name, key=...) on its stream itself"
            )

    def on_close(self, callback: Callable[[], object]) -> None:
        """Call ``callback`` when the dataflow ends on this worker: when it is complete, has failed or is dropped.

        Callbacks run in reverse order, each once; errors are logged. On Ray they run only for added dataflows: the
        worker's process ends with the job, without callbacks.
        """
        self._host.closing.add(self.name, callback)

    def probe(self, name: str) -> Antichain:
        """Return this worker's frontier at a probe, so that the operator can pace itself.

        After this call, the operator is scheduled whenever any probe of the dataflow moves.

        Raises:
            GraphError: there is no such probe.
        """
        return self._host.probes.follow(self._instance.number, name)

    @property
    def is_held(self) -> bool:
        """True if a source must not send, because too much is in flight."""
        return self._host.flow.is_held


def instance_of(context: OperatorContext) -> OperatorInstance:
    return context._instance


def pacts_of(context: OperatorContext) -> Sequence[Pact | None]:
    return context._host.plan.operators[context._instance.number].pacts


def sender_of(context: OperatorContext, port: int = 0) -> str:
    plan = context._host.plan
    return plan.name_at(plan.operators[context._instance.number].sources[port])


def host_of(context: OperatorContext) -> OperatorHost:
    return context._host
