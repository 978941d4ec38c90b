"""A client's request to send records: their form, their key, and the wait for a snapshot; no I/O."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tidewheel.gateway.errors import BadRequest, TooLarge
from tidewheel.runtime.engines.job_by_name import check_key
from tidewheel.runtime.inputs.door import Form

MAX_BODY_BYTES: Final = 8 << 20
"""The largest body of a request, in bytes."""

ARROW: Final = "application/vnd.apache.arrow.stream"
"""The media type of an Arrow IPC stream; every other body is lines of JSON."""

_WAIT = re.compile(r"(?:^|[,;])\s*wait\s*=\s*\"?(\d{1,6})\"?\s*(?:$|[,;])", re.IGNORECASE)
_LONGEST_WAIT_S = 300.0


@dataclass(frozen=True, slots=True)
class PostingRequest:
    """The options in the headers of a request.

    Attributes:
        key: postings with the same key count once; with None, each posting counts.
        wait_s: the seconds for which the client waits for a snapshot that has the records; 0 to not wait.
    """

    form: Form = "json"
    key: str | None = None
    wait_s: float = 0.0

    @classmethod
    def from_headers(cls, headers: Mapping[str, str]) -> "PostingRequest":
        """Return the options in ``headers``, whose names are in lower case.

        Raises:
            BadRequest: the key is too long or not printable, or the body is compressed.
            TooLarge: the body has too many bytes.

        >>> PostingRequest.from_headers({"idempotency-key": "order 17", "prefer": "wait=30"})
        PostingRequest(form='json', key='order 17', wait_s=30.0)
        """
        length = headers.get("content-length", "")
        if length.isdecimal():
            check_size(int(length))
        if headers.get("content-encoding", "identity").lower() != "identity":
            raise BadRequest("the body is compressed, and this gateway reads plain ones: leave out Content-Encoding")
        key = headers.get("idempotency-key")
        try:
            check_key(key)
        except TypeError as error:
            raise BadRequest(f"Idempotency-Key: {error}") from None
        form: Form = "arrow" if headers.get("content-type", "").partition(";")[0].strip().lower() == ARROW else "json"
        found = _WAIT.search(headers.get("prefer", ""))
        return cls(form, key, min(float(found[1]), _LONGEST_WAIT_S) if found else 0.0)


def check_size(size: int) -> None:
    """Raise TooLarge for a body that is larger than `MAX_BODY_BYTES`."""
    if size > MAX_BODY_BYTES:
        raise TooLarge(f"the body has more than {MAX_BODY_BYTES:,} bytes: send the records in several requests")
