"""The server of a source or sink, and how to connect: the password is never kept, and each wait ends."""

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from tidewheel.connectors.base.secret_settings import check_secrets, with_secrets
from tidewheel.connectors.redis.errors import RedisError
from tidewheel.host.extras import check_extra
from tidewheel.progress import GraphError
from tidewheel.progress.redaction import has_apparent_secret, redacted

_SCHEMES: Final = ("redis://", "rediss://", "unix://")
_OURS: Final = frozenset({"decode_responses", "protocol", "retry", "retry_on_error", "retry_on_timeout"})
"""The settings on which the promises of sources and sinks stand."""


@dataclass(frozen=True, slots=True, repr=False)
class RedisServer:
    """A server and further settings of a client; picklable, without its passwords.

    Raises:
        GraphError: the URL is none, a password is not a `Secret`, or the source or sink itself sets a given setting.
        RedisError: the extra ``redis`` is not installed.
    """

    kind: str
    url: str
    given: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_extra("redis", self.kind, RedisError)
        if isinstance(self.url, str) and has_apparent_secret(self.url):
            raise GraphError(
                f"{self.kind}: the URL has a user or password, which would be pickled with the dataflow. Put "
                "them into config, the password as a tw.Secret"
            )
        if not isinstance(self.url, str) or not self.url.startswith(_SCHEMES):
            raise GraphError(f"{self.kind}: url is such as 'redis://host:6379' or 'rediss://host', not {self.url!r}")
        check_secrets(self.kind, "config", self.given, "REDIS_PASSWORD")
        try:
            parts = urlsplit(self.url)
            _ = parts.port
        except ValueError as error:
            raise GraphError(f"{self.kind}: url is no address: {error}. It is {self.url!r}") from None
        for where, names in (("config", self.given.keys()), ("url", parse_qs(parts.query).keys())):
            if ours := sorted(_OURS & names):
                raise GraphError(
                    f"{self.kind}: {where} has {', '.join(ours)}, which the {self.kind} sets itself: remove it"
                )

    @contextmanager
    def connected(self, what: str) -> Iterator[Any]:
        """Connect for a block, whose errors become ConnectionError if another attempt may succeed, else RedisError.

        Args:
            what: the beginning of messages, which says what has failed.
        """
        import redis
        from redis.backoff import NoBackoff
        from redis.retry import Retry

        limits = {"socket_timeout": 10.0, "socket_connect_timeout": 5.0}
        ours: dict[str, Any] = {
            "protocol": 2,
            "retry": Retry(NoBackoff(), 0),
        }  # with 3, redis-py reads at half the speed
        try:
            with closing(redis.Redis.from_url(self.url, **{**limits, **with_secrets(self.given)}, **ours)) as client:
                yield client
        except redis.RedisError as error:
            raise _failure(error, f"{what} at {self.url}") from None
        except TypeError as error:
            raise RedisError(f"{what} at {self.url}: {redacted(str(error))}. Correct config") from error


def stream_info(client: Any, stream: str) -> Mapping[str, Any] | None:
    """Return what XINFO STREAM says; None if there is no stream."""
    from redis import ResponseError

    try:
        found: Mapping[str, Any] = client.xinfo_stream(stream)
    except ResponseError as error:
        if "no such key" in str(error):
            return None
        raise
    return found


def id_of(text: bytes) -> tuple[int, int]:
    """Return the two numbers of an id, which order ids.

    >>> id_of(b"17-2")
    (17, 2)
    """
    first, _, second = text.partition(b"-")
    return int(first), int(second)


def _failure(error: Exception, what: str) -> Exception:
    from redis import exceptions

    text = redacted(str(error)).rstrip(".") or type(error).__name__
    said = f"{what}: {text}"
    refused = (exceptions.AuthenticationError, exceptions.AuthorizationError, exceptions.NoPermissionError)
    if isinstance(error, refused) or ("SSL" in text and "EOF" not in text):
        return RedisError(f"{said}. Check username, password and ssl_* in config, and what the server permits to them")
    passing = (
        exceptions.ConnectionError,
        exceptions.TimeoutError,
        exceptions.MasterDownError,
        exceptions.OutOfMemoryError,
        exceptions.ReadOnlyError,
        exceptions.WatchError,
    )
    code = text.rpartition(" of pipeline caused error: ")[2]
    if isinstance(error, passing) or code.startswith(("MISCONF", "NOREPLICAS")):
        return ConnectionError(said)
    return RedisError(said)
