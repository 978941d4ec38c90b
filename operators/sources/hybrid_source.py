"""A source of two sources in turn: history first, such as files, then what is live, such as a topic.

A partition of either is a partition of this one. Those of the live source are dealt when all of the history have
ended. What has ended is in the snapshots, so a job that continues neither reads the history again nor begins with the
live source too early.
"""

from collections.abc import Collection, Iterator, Mapping
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from tidewheel.operators.sources.contract import Fetched, Partition, Pause, Record_co, Source, Unit
from tidewheel.progress import GraphError

if TYPE_CHECKING:
    from tidewheel.runtime.worker.operator_context import OperatorContext

_HISTORY: Final = "history"
_LIVE: Final = "live"
_NUMBER: Final = "#"
"""The mark before the name of a partition that is a number; before others stands a slash."""


class HybridSource(Source[Record_co]):
    """The source that `Source.then` returns, with its arguments and errors."""

    def __init__(self, history: Source[Record_co], live: Source[Record_co]) -> None:
        given: list[Any] = [history, live]
        for source in given:
            kind = type(source).__qualname__
            if not isinstance(source, Source):
                raise GraphError(f"then: it takes an object of a subclass of tw.Source, not of {kind}")
            if source.says_epochs:
                raise GraphError(
                    f"then: a {kind} says its epochs itself, and the other source does not know them: read both with "
                    "flow.source, and concat() the streams"
                )
        if history.endless or history.look_every_s is not None:
            raise GraphError(
                f"then: a {type(history).__qualname__} like this one has no end, so the other source would never be "
                "read: take one that ends, such as a FileSource without watch_every_s"
            )
        self._history = history
        self._live = live
        self._names: list[Partition] | None = None
        """The partitions of the history, once they are listed, or as a snapshot has them."""
        self.look_every_s = live.look_every_s
        self.endless = live.endless
        self.retry = replace(live.retry, on=(*_errors(history), *_errors(live)))  # where both are listed
        self._may_refuse = history._may_refuse or live._may_refuse

    def partitions(self) -> list[Partition]:
        """Return the partitions of both sources, those of the history as they were at the first call."""
        if self._names is None:
            self._names = [_named(_HISTORY, name) for name in self._history.partitions()]
        return [*self._names, *(_named(_LIVE, name) for name in self._live.partitions())]

    def resumed(self, partitions: Collection[Partition]) -> None:
        """Let each source compare its partitions; if the live source was read, the history has ended.

        The partitions of the history are listed again as they were, and so stay in the snapshots: a job that continues
        without them would read the history anew once those of the live source are gone.
        """
        history = [one for one in partitions if not _is_live(one)]
        live = [self._split(one)[1] for one in partitions if _is_live(one)]
        if live or not isinstance(self._history, HybridSource):  # of which some may not be dealt yet
            self._names = history
        if live:
            self._live.resumed(live)
        else:
            self._history.resumed([self._split(one)[1] for one in history])

    def open(self, partition: Partition, position: Any) -> Iterator[tuple[Any, Any] | Fetched[Record_co] | Pause]:
        """Read a partition of the source that it belongs to."""
        source, name = self._split(partition)
        return source.open(name, position)

    def saved(self, partition: Partition, position: Any) -> None:
        """Tell the source of the partition."""
        source, name = self._split(partition)
        source.saved(name, position)

    def behind(self, partition: Partition, position: Any) -> Mapping[Unit, float] | None:
        """Return what the source of the partition says."""
        source, name = self._split(partition)
        return source.behind(name, position)

    def close(self) -> None:
        """Close both sources."""
        try:
            self._history.close()
        finally:
            self._live.close()

    def _on_worker(self, context: "OperatorContext", *, reads: bool) -> "HybridSource[Record_co]":
        made = copy(self)
        made._history = self._history._on_worker(context, reads=reads)
        made._live = self._live._on_worker(context, reads=reads)
        return made

    def _owner(self, partition: Partition) -> Source[Record_co]:
        source, name = self._split(partition)
        return source._owner(name)

    def _parts(self) -> tuple[Source[Any], ...]:
        return self._history, self._live

    def _turn(self, partition: Partition) -> tuple[int, ...]:
        source, name = self._split(partition)
        return int(_is_live(partition)), *source._turn(name)

    def _split(self, partition: Partition) -> tuple[Source[Record_co], Partition]:
        """Return the source of a partition, and the name that it has there."""
        kind = _LIVE if _is_live(partition) else _HISTORY
        own = str(partition)[len(kind) :]
        return self._live if kind == _LIVE else self._history, int(own[1:]) if own[0] == _NUMBER else own[1:]


def _is_live(partition: Partition) -> bool:
    return str(partition).startswith(_LIVE)


def _named(kind: str, name: Partition) -> str:
    return f"{kind}{_NUMBER}{name}" if isinstance(name, int) else f"{kind}/{name}"


def _errors(source: Source[Any]) -> tuple[type[Exception], ...]:
    on = source.retry.on
    return on if isinstance(on, tuple) else (on,)
