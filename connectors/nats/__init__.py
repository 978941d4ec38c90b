"""NATS JetStream: `NatsSource` reads a stream, `NatsSink` stores epochs in one.

Importing this package loads no client; the extra ``nats`` is needed when you make one of the two.
"""

from tidewheel.connectors.nats.errors import NatsError
from tidewheel.connectors.nats.nats_record import NatsRecord
from tidewheel.connectors.nats.nats_sink import NatsSink
from tidewheel.connectors.nats.nats_source import NatsSource

__all__ = ["NatsError", "NatsRecord", "NatsSink", "NatsSource"]
