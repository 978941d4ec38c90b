"""The context of an operator on its worker: what its build function may know and use."""

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
    """Has one operator scheduled on one worker, though nothing new may have arrived for it; from any thread.

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
        """Have the operator scheduled in the worker's next step."""
        self._agenda.activate_later(self._operator)

    def after(self, seconds: float) -> None:
        """Have the operator scheduled once so many seconds have passed; not at all if the job ends before.

        Raises:
            ValueError: ``seconds`` is negative, or no number.
        """
        if not seconds >= 0:
            raise ValueError(f"an operator can be scheduled after some seconds, 0 or more, not after {seconds!r}")
        self._agenda.activate_after(self._operator, seconds)


State = TypeVar("State")


class OperatorContext:
    """One operator on one worker, as its build function sees it.

    Attributes:
        name: the operator's name.
        worker: the number of this worker, from 0.
        workers: how many workers there are.
        nodes: the id of each worker's Ray node, by number, for sources that read from near nodes. All ids are empty on
            the local engine, and in a job with snapshots, which may go on with workers on other nodes.
        activator: has this operator scheduled from any thread, now or after some time; may be passed to others.
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
        """Take the initial token of an output, at the minimum time; it is discarded if build returns without it.

        An operator that goes on from a snapshot has none. So take it where a state is made, which is not called then:
        ``token = context.state("token", context.token)``.

        Raises:
            TokenError: there is no such output, or its token was taken already or is gone, or the operator goes on from
                a snapshot.
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
        """Return what this operator keeps under ``name`` on this worker; ``make()`` if there is nothing yet.

        State that is kept here, and not in variables of the build function, is in the snapshots of the job. It is
        changed in place, and can be pickled. It may hold tokens, each once. What belongs to a key is better kept by
        `keyed_state`.

        Args:
            name: what it is called in snapshots; unlike that of any other state of the operator.
            make: returns the state with which the operator begins. It is not called where a snapshot has the state.
            split: ``split(state, workers)`` returns one part for each worker, None for no part. It is for a job that
                goes on with another number of workers. Without it such a job is refused, unless all
                workers have what ``make`` returns. Records that came by an exchange go to the worker to which that
                sends them now. The tokens of a notificator are on all workers then, so an operator may be told of
                times of which it has nothing.
            merge: ``merge(one, other)`` returns one state of two parts.
            migrate: the functions that changes of the program need, oldest first. A program whose state has a new form
                has one more: ``function(old)`` returns the state in the new form, with the tokens that the old one has.
                A snapshot notes how many there were, so each is called once.

        Raises:
            GraphError: the name is no text, empty, longer than 200 characters, or has a control character.
            SnapshotError: a snapshot has the state, and it cannot be read, converted or divided.

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
        """Return what this operator keeps under ``name`` by key, on this worker; at first an empty mapping.

        A snapshot writes only the keys that have changed since the last one. A job that goes on with another number of
        workers divides the keys among them. So the key is what the records were exchanged by. A value that is changed
        in place is first read from the mapping, in the same call of the operator. It may hold tokens, each once.

        Args:
            name: what it is called in snapshots; unlike that of any other state of the operator.
            make: returns the value of a key that is read and has none, as in `collections.defaultdict`.
            owners: ``owners(keys, workers)`` returns the number of the worker to which each key belongs. By default it
                is the worker to which an exchange by the key itself sends it.
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
        """Ask, from any thread, to be scheduled in the worker's next step, though nothing new may have arrived."""
        self.activator()

    def expect_activation(self) -> None:
        """Say that another thread is going to call `activate`; the next call of the operator forgets it.

        So a job of the local engine waits for the call instead of raising that nothing is left to do. On every engine,
        messages that the operator leaves unread meanwhile hold back the sources.

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
        """Promise that nothing more of the substreams with these keys is sent, by this operator or any other.

        It is for the operator right before ``stream.substreams(name, key=...)``, and takes its way among the records:
        what this operator has sent before still belongs to them.

        Args:
            token: one with which the operator can send.
            keys: as the key of a record is found there.

        Raises:
            TokenError: the token does not allow to send, or is none.
            GraphError: no stream of this operator is divided right behind it.

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
        """Have ``callback`` called when the dataflow ends on this worker: completes and is left, fails, or is dropped.

        The last that was added is called first, none twice, and what one raises is logged. None is called where the
        worker's process ends with the job, as on Ray it does for all but dataflows that were added.
        """
        self._host.closing.add(self.name, callback)

    def probe(self, name: str) -> Antichain:
        """Return the frontier at a probe of this dataflow, as far as this worker knows, for an operator to pace itself.

        From then on the operator is scheduled whenever the frontier at a probe moves.

        Raises:
            GraphError: there is no such probe.
        """
        return self._host.probes.follow(self._instance.number, name)

    @property
    def is_held(self) -> bool:
        """Whether a source is not to send now, because too much is in flight."""
        return self._host.flow.is_held


def instance_of(context: OperatorContext) -> OperatorInstance:
    """Return the operator behind a context, for operators of this package and tests."""
    return context._instance


def pacts_of(context: OperatorContext) -> Sequence[Pact | None]:
    """Return by which pact each input of an operator gets its records; None for those of its own worker."""
    return context._host.plan.operators[context._instance.number].pacts


def sender_of(context: OperatorContext, port: int = 0) -> str:
    """Return the name of the operator whose records come in at a port."""
    plan = context._host.plan
    return plan.name_at(plan.operators[context._instance.number].sources[port])


def host_of(context: OperatorContext) -> OperatorHost:
    """Return the worker behind a context, for operators of this package."""
    return context._host
