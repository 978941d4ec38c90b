"""The operator that finds the partitions of a source, deals them to workers, and begins epochs by the clock.

It works on worker 0 only. Its token is at the latest epoch that has begun, where new partitions begin.
"""

import threading
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from tidewheel.host.log_lines import about
from tidewheel.operators.base.division import at_first
from tidewheel.operators.sources.contract import Partition, Source
from tidewheel.operators.sources.dealing import Dealing
from tidewheel.operators.sources.partition_epochs import EpochRule, later
from tidewheel.operators.sources.readings import CLOSES_WITHIN_S, LOGGER, failed_part
from tidewheel.operators.sources.source_news import news_of
from tidewheel.runtime.description.plan import Schedule
from tidewheel.runtime.tokens.token_set import TokenSet
from tidewheel.runtime.worker.operator_context import OperatorContext, host_of, instance_of
from tidewheel.runtime.worker.ports import OutputPort


class Listing:
    """The thread that lists partitions, once or repeatedly.

    Args:
        wake: called, on the thread, when there is a new list or an error.
        dealt: the partitions that the restored snapshot has.
    """

    def __init__(self, source: Source[Any], name: str, wake: Callable[[], None], dealt: Collection[Partition]) -> None:
        self._source = source
        self._name = name
        self._wake = wake
        self._dealt = dealt
        self._closed = threading.Event()
        self._found: deque[list[Partition] | Exception] = deque(maxlen=1)
        self._thread = threading.Thread(target=self._run, name=f"tidewheel-{name}-partitions", daemon=True)
        self._thread.start()

    def take(self) -> list[Partition] | None:
        """Return the latest list, or None if there is no new list; raise the error that has ended the listing."""
        found = self._found.popleft() if self._found else None
        if isinstance(found, Exception):
            raise found
        return found

    def close(self) -> None:
        """End the thread after its current call."""
        self._closed.set()
        self._thread.join(CLOSES_WITHIN_S)
        if self._thread.is_alive():
            said = "source %r: partitions() still runs %g s after its job has ended; its thread goes on"
            LOGGER.warning(said, self._name, CLOSES_WITHIN_S, extra=about(operator=self._name))

    def _run(self) -> None:
        try:
            if self._dealt:
                self._source.resumed(self._dealt)
            while not self._closed.is_set():
                found = self._source.retry.call(
                    lambda: [] if self._closed.is_set() else list(self._source.partitions()),
                    on_failure=self._note,
                    sleep=self._closed.wait,
                )
                if self._closed.is_set():
                    return
                self._found.append(found)
                self._wake()
                if self._source.look_every_s is None:
                    return
                self._closed.wait(self._source.look_every_s)
        except BaseException as error:  # noqa: BLE001 - the worker raises it
            self._found.append(failed_part(self._name, "could not list the partitions", error))
            self._wake()

    def _note(self, error: Exception, failures: int) -> None:
        said = "source %r: partitions() is called again, after attempt %d: %s: %s"
        LOGGER.warning(said, self._name, failures, type(error).__name__, error, extra=about(operator=self._name))


@dataclass(frozen=True, slots=True)
class DiscovererBuild:
    """The build function of the operator; ``news`` names the source's `SourceNews` on each worker."""

    is_source: ClassVar[bool] = False

    news: str
    source: Source[Any]
    rule: EpochRule

    def __call__(self, context: OperatorContext) -> Schedule:
        """Return this worker's schedule function."""
        tokens = at_first(_inserted).state(context, "tokens", partial(_first_token, context))
        dealing = at_first(Dealing.merge).state(context, "dealt", Dealing)
        if context.worker or not tokens:
            return lambda output: None
        return _Discoverer(context, self, dealing, tokens).schedule


def _first_token(context: OperatorContext) -> TokenSet:
    return TokenSet() if context.worker else TokenSet([context.token()])


def _inserted(one: TokenSet, other: TokenSet) -> TokenSet:
    for token in other:
        one.insert(token)
    return one


class _Discoverer:
    """The operator on worker 0."""

    def __init__(self, context: OperatorContext, build: DiscovererBuild, dealing: Dealing, tokens: Any) -> None:
        self._context = context
        self._source = build.source._on_worker(context, reads=False)
        self._every_s = build.rule.every_s
        self._dealing = dealing
        self._tokens = tokens
        self._news = news_of(context, build.news)
        self._news.wake.append(context.activate)
        self._clock = instance_of(context).clock
        self._next_s = 0.0
        self._listing: Listing | None = None
        self._listed: list[Partition] = []
        """The last list, while some of its partitions wait."""
        if not (dealing.has_listed and build.source.look_every_s is None):
            self._listing = Listing(self._source, context.name, context.activator, tuple(dealing.numbers))
            context.on_close(self._listing.close)
        instance_of(context).waits_for = "the list of its partitions"

    def schedule(self, output: OutputPort) -> None:
        """Deal new partitions, and follow the epochs."""
        if not self._tokens:
            return
        self._follow()
        found = None if self._listing is None else self._listing.take()
        if found is not None or self._listed:
            self._deal(self._listed if found is None else found, output)
        if self._has_ended:
            self._tokens.discard()
        elif self._listing is not None:
            host_of(self._context).agenda.expected[instance_of(self._context).number] = False

    def _deal(self, found: list[Partition], output: OutputPort) -> None:
        """Deal the new partitions of a list, but for those whose turn has not come."""
        ready, ended = found, self._news.ended
        if any(map(self._source._turn, found)):
            present = min((self._source._turn(one) for one in {*self._dealing.numbers, *found} - ended), default=())
            ready = [name for name in found if name in ended or self._source._turn(name) <= present]
        waits = len(ready) < len(found)
        self._listed = found if waits else []
        self._dealing.has_listed = not waits
        deals = self._dealing.deal(ready, self._news.ended, self._context.workers)
        (token,) = self._tokens
        output.send(token, deals)

    @property
    def _has_ended(self) -> bool:
        if self._source.look_every_s is not None or not self._dealing.has_listed:
            return False
        return self._every_s is None or self._news.ended.issuperset(self._dealing.numbers)

    def _follow(self) -> None:
        (token,) = self._tokens
        if self._every_s is not None:
            now_s = self._clock()
            if not self._next_s:
                self._next_s = now_s + self._every_s
                self._context.activator.after(self._every_s)
            elif now_s >= self._next_s:
                token.downgrade(token.time + 1)
                self._next_s = now_s + self._every_s
                self._context.activator.after(self._every_s)
        goes_on = (self._every_s or self._source.look_every_s) is not None or not self._dealing.has_listed
        if self._news.latest is not None and goes_on:
            token.downgrade(later(token.time, self._news.latest))
