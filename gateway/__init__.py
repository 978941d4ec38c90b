"""Live topics, and inboxes of jobs, for clients outside Ray: browsers, data tools, and programs that send records.

Importing this package loads no web server. Starting a `Gateway` needs the libraries of the extra ``gateway``.
"""

from tidewheel.gateway.access import new_token
from tidewheel.gateway.errors import BadRequest, GatewayError, TooManyClients
from tidewheel.gateway.gateway import Gateway
from tidewheel.gateway.gateway_config import GatewayConfig
from tidewheel.gateway.ingest import Ingest
from tidewheel.gateway.record_filter import Comparison, RecordFilter

__all__ = [
    "BadRequest",
    "Comparison",
    "Gateway",
    "GatewayConfig",
    "GatewayError",
    "Ingest",
    "RecordFilter",
    "TooManyClients",
    "new_token",
]
