"""The columns of a stream, as workers tell each other: a worker that received no rows knows them, too.

In an outer join a worker fills the columns of the other side with nulls, also if no row of it came here. A schema is
sent to all workers at the first times at which there are rows, so at any time it is known or unknown everywhere.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tidewheel.operators.records.arrow_rows import as_table
from tidewheel.progress import Time, TimeDomain
from tidewheel.runtime import Build, InputPort, OperatorContext, OutputPort, Schedule
from tidewheel.transport.batches import take_slice

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(slots=True)
class KnownSchemas:
    """The schemas of a stream by the least times from which on they are known.

    Attributes:
        promised: the schema that is known before anything has come, if there is one.
        schemas: those that were learned.
    """

    promised: "pa.Schema | None" = None
    schemas: "dict[Time, pa.Schema]" = field(default_factory=dict)

    def learn(self, domain: TimeDomain, time: Time, schema: "pa.Schema") -> bool:
        """Take in that the stream has ``schema`` at ``time``; return whether that was not known."""
        if self._at(domain, time) is not None:
            return False
        for later in [known for known in self.schemas if domain.less_equal(time, known)]:
            del self.schemas[later]
        self.schemas[time] = schema
        return True

    def empty_table(self, domain: TimeDomain, time: Time) -> "pa.Table | None":
        """Return a table without rows that has the columns known at ``time``, None if none are."""
        schema = self._at(domain, time)
        return None if schema is None else as_table(schema.empty_table())

    def _at(self, domain: TimeDomain, time: Time) -> "pa.Schema | None":
        if self.promised is not None:
            return self.promised
        return next((schema for known, schema in self.schemas.items() if domain.less_equal(known, time)), None)


def build_announce(domain: TimeDomain) -> Build:
    """Return the build function of an operator that sends a stream's schema where those who listen do not know it."""

    def build(context: OperatorContext) -> Schedule:
        known = context.state("known", KnownSchemas)

        def schedule(input: InputPort, output: OutputPort) -> None:
            for lent, batch in input:
                schema = as_table(take_slice(batch, 0, 0)).schema
                if known.learn(domain, lent.time, schema):
                    output.send(lent, [schema])

        return schedule

    return build
