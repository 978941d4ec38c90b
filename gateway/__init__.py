"""Live topics for those outside of Ray: browsers, by Server-Sent Events or WebSocket, and data tools, by Arrow Flight.

What is imported here needs no web server: those libraries come with the extra ``gateway`` and load when a `Gateway`
starts.
"""

from tidewheel.gateway.access import new_token
from tidewheel.gateway.errors import BadRequest, GatewayError, TooManyClients
from tidewheel.gateway.gateway import Gateway
from tidewheel.gateway.gateway_config import GatewayConfig
from tidewheel.gateway.record_filter import Comparison, RecordFilter

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
