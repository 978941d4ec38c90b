"""Redis Streams: `RedisSource` reads streams, `RedisSink` stores epochs in one.

Importing this package loads no client; the extra ``redis`` is needed when you make one of the two.
"""

from tidewheel.connectors.redis.errors import RedisError
from tidewheel.connectors.redis.redis_record import RedisRecord
from tidewheel.connectors.redis.redis_sink import RedisSink
from tidewheel.connectors.redis.redis_source import RedisSource

__all__ = ["RedisError", "RedisRecord", "RedisSink", "RedisSource"]
