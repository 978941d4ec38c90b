"""Live topics for those outside of Ray: browsers, by Server-Sent Events or WebSocket, and data tools, by Arrow Flight.

What is imported here needs no web server: those libraries come with the extra ``gateway`` and load when a `Gateway`
starts.
"""

from tidewheel.pubsub.gateway.access import new_token
from tidewheel.pubsub.gateway.errors import BadRequest, GatewayError, TooManyClients
from tidewheel.pubsub.gateway.gateway import Gateway
from tidewheel.pubsub.gateway.gateway_config import GatewayConfig
from tidewheel.pubsub.gateway.record_filter import Comparison, RecordFilter

__all__ = [
    "BadRequest",
    "Comparison",
    "Gateway",
    "GatewayConfig",
    "GatewayError",
    "RecordFilter",
    "TooManyClients",
    "new_token",
]
