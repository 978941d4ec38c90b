"""One worker's share of a source: the partitions that it reads, and their positions.

A source divides its records among the workers with which the job began, since a number of sent batches means nothing
for another division. If the number of workers changes, these shares are dealt to the new workers as they are.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tidewheel.operators.base.division import Division, at_first
from tidewheel.progress import Time
from tidewheel.runtime.errors import SnapshotError
from tidewheel.runtime.tokens.timestamp_token import TimestampToken
from tidewheel.runtime.tokens.token_set import TokenSet
from tidewheel.runtime.worker.operator_context import OperatorContext


@dataclass(slots=True)
class Position:
    """The position in one partition.

    Attributes:
        held: the token or tokens for what can still come; None at the partition's end.
        begun: the epochs begun, if a probe limits the source; see `Pace`.
    """

    held: Any
    sent: int = 0
    begun: list[Time] = field(default_factory=list)

    def end(self) -> None:
        """Record that the partition has ended."""
        self.held.discard()
        self.held = None


@dataclass(slots=True)
class _Shares:
    """The shares of a source that one worker reads.

    Attributes:
        nodes: the nodes of the workers for which the source is divided.
        positions: for each of these workers, the positions in its partitions; None if they have not begun.
    """

    nodes: Sequence[str]
    positions: dict[int, list[Position] | None]

    def split(self, workers: int) -> "list[_Shares]":
        items = self.positions.items()
        return [_Shares(self.nodes, {n: at for n, at in items if n % workers == own}) for own in range(workers)]

    def merge(self, other: "_Shares") -> "_Shares":
        return _Shares(self.nodes, self.positions | other.positions)


def _at_the_start(
    context: OperatorContext, partitions: int, hold: Callable[[TimestampToken], TimestampToken | TokenSet]
) -> list[Position]:
    with context.token() as token:
        return [Position(hold(token.clone())) for _ in range(partitions)]


def tokens_at_first(context: OperatorContext) -> TokenSet:
    """Return the tokens of a source that only worker 0 reads; other workers have none."""
    return at_first(_inserted).state(
        context, "tokens", lambda: TokenSet() if context.worker else TokenSet([context.token()])
    )


def _inserted(one: TokenSet, other: TokenSet) -> TokenSet:
    for token in other:
        one.insert(token)
    return one


def take_forward(tokens: TokenSet, frontier: Iterable[Time]) -> None:
    """Downgrade tokens to a frontier, unless they were beyond it when restored."""
    times = list(frontier)
    if not any(have_passed(tokens, time) for time in times):
        tokens.downgrade(times)


def have_passed(tokens: TokenSet, time: Time) -> bool:
    """Tell whether all tokens are beyond a time, so that it was complete before."""
    domains = [token.domain for token in tokens if token.domain.contains(time)]
    return bool(domains) and not any(domains[0].less_equal(own, time) for own in tokens.times)


def open_share(
    context: OperatorContext,
    partitions: Callable[[int, Sequence[str]], Sequence[Iterable[Any]]],
    hold: Callable[[TimestampToken], TimestampToken | TokenSet],
) -> Iterator[tuple[Iterator[Any], Position]]:
    """Yield each unfinished partition of this worker, read from its start, with its position.

    Args:
        context: the context of the source's operator; the iterators are closed with the dataflow.
        partitions: opens the partitions of a worker, given its number and the nodes of all workers.
        hold: gets a token for a partition, and returns the token or tokens that the partition holds at first.

    Raises:
        SnapshotError: the source had other partitions when the snapshot was taken.
    """
    made = Division(_Shares.split, _Shares.merge)
    shares = made.state(context, "positions", lambda: _Shares(list(context.nodes), {context.worker: None}))
    for worker, saved in shares.positions.items():
        opened = partitions(worker, shares.nodes)
        positions = _at_the_start(context, len(opened), hold) if saved is None else saved
        shares.positions[worker] = positions
        if len(opened) != len(positions):
            raise SnapshotError(
                f"operator {context.name!r} cannot go on: for worker {worker} of {len(shares.nodes)} its source has "
                f"{len(opened)} partitions, and in the snapshot it has {len(positions)}. Give it the source it had"
            )
        for iterator, position in zip(map(iter, opened), positions, strict=True):
            if hasattr(iterator, "close"):  # as a generator with an open file
                context.on_close(iterator.close)
            if position.held is not None:
                yield iterator, position
