"""A folder in S3, Google Cloud Storage or Azure, through obstore.

The import of this module takes some tenths of a second; `store_url.py` has the checks that do not need it. obstore
reads credentials and endpoints from the environment. URLs in errors are shown without user and query, which may be
secret.
"""

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

import obstore
from obstore import exceptions
from obstore.store import ObjectStore, from_url

from tidewheel.host.retry import Retry

if TYPE_CHECKING:
    from obstore.store import RetryConfig  # which does not exist at run time

_PIECE_BYTES = 8 << 20
_PIECES_AT_ONCE = 4
_MOST_REMOVED = 1000

_NO_BUCKET = re.compile(r"NoSuchBucket|ContainerNotFound|bucket does not exist|container does not exist")
_FULL = re.compile(r"Quota|StorageFull|InsufficientStorage|EntityTooLarge|^507\b", re.IGNORECASE)
_STATUS = re.compile(r"status code: (\d+[\w ]*)")
_CODE = re.compile(r"<Code>(\w+)</Code>")
_REFUSED = re.compile(r"40[13]\b")


class RemoteFolder:
    """A bucket, or a prefix of one; thread-safe.

    A call that fails, also the constructor, raises ``error(message)``; the message has the URL, the reason and the
    remedy.

    Args:
        error: makes the exception from a message.
    """

    def __init__(self, url: str, timeout_s: float, error: Callable[[str], Exception]) -> None:
        self._shown = url
        self._timeout_s = timeout_s
        self._error = error
        with self._clear_errors("", "opened"):
            self._store: ObjectStore = from_url(
                url,
                client_options={"timeout": timedelta(seconds=timeout_s / 2), "allow_http": _allows_http()},
                retry_config=_config_of(Retry(attempts=9, within_s=timeout_s, longest_pause_s=15.0)),
            )

    def write(self, name: str, frames: Sequence[memoryview]) -> None:
        """Put an object; large objects are sent in parallel pieces."""
        with self._clear_errors(name, "written"):
            if sum(frame.nbytes for frame in frames) <= _PIECE_BYTES:
                obstore.put(self._store, name, b"".join(frames), use_multipart=False)
                return
            pieces = _pieces(frames)
            obstore.put(self._store, name, pieces, chunk_size=_PIECE_BYTES, max_concurrency=_PIECES_AT_ONCE)

    def put_new(self, name: str, data: bytes) -> bool:
        with self._clear_errors(name, "written"):
            try:
                obstore.put(self._store, name, data, mode="create")
            except exceptions.AlreadyExistsError:
                return False
        return True

    def replace_version(self, name: str, data: bytes, version: str) -> bool:
        """Replace an object if its ETag is ``version``; otherwise return False."""
        with self._clear_errors(name, "written"):
            try:
                obstore.put(self._store, name, data, mode={"e_tag": version})
            except exceptions.PreconditionError:
                return False
        return True

    def read(self, name: str, size: int = 0) -> bytes | None:
        with self._clear_errors(name, "read"):
            try:
                if size <= _PIECE_BYTES:
                    return bytes(obstore.get(self._store, name).bytes())
                return self._read_pieces(name, size)
            except FileNotFoundError as error:
                if _NO_BUCKET.search(str(error)):
                    raise
                return None

    def read_part(self, name: str, start: int, size: int) -> bytes | None:
        """Return at most ``size`` bytes from ``start`` on; None if the object does not exist."""
        with self._clear_errors(name, "read"):
            try:
                return bytes(obstore.get_range(self._store, name, start=start, length=size))
            except FileNotFoundError as error:
                if _NO_BUCKET.search(str(error)):
                    raise
                return None

    def _read_pieces(self, name: str, size: int) -> bytes:
        try:
            first = obstore.get(self._store, name, options={"range": (0, _PIECE_BYTES)})
        except exceptions.GenericError as error:
            if "status code: 416" in str(error):  # the object is empty
                return b""
            raise
        if first.meta["size"] != size:
            return b""
        starts = range(_PIECE_BYTES, size, _PIECE_BYTES)
        ends = [min(start + _PIECE_BYTES, size) for start in starts]
        others = obstore.get_ranges(self._store, name, starts=starts, ends=ends, coalesce=0)
        return b"".join([first.bytes(), *others])

    def sizes(self, prefix: str) -> Mapping[str, int]:
        with self._clear_errors(prefix, "listed"):
            return {meta["path"]: meta["size"] for page in obstore.list(self._store, prefix) for meta in page}

    def versions(self, prefix: str) -> Iterator[tuple[str, tuple[str, int]]]:
        """Yield the objects under a prefix, or the object with that name, as (name, (ETag, size))."""
        with self._clear_errors(prefix, "listed"):
            found = [meta for page in obstore.list(self._store, prefix or None) for meta in page]
            if not found and prefix:
                try:
                    found = [obstore.head(self._store, prefix)]
                except FileNotFoundError as error:
                    if _NO_BUCKET.search(str(error)):
                        raise
        for meta in found:
            yield meta["path"], (meta["e_tag"] or meta["version"] or "", meta["size"])

    def read_version(self, name: str, version: str, start: int, size: int) -> bytes | None:
        """Return a part of an object; None if it has another ETag.

        Raises:
            FileNotFoundError: the object does not exist any more.
        """
        with self._clear_errors(name, "read"):
            try:
                answer = obstore.get(self._store, name, options={"range": (start, start + size), "if_match": version})
                return bytes(answer.bytes())
            except exceptions.PreconditionError:
                return None
            except FileNotFoundError as error:
                if _NO_BUCKET.search(str(error)):
                    raise
        raise FileNotFoundError(name)

    def remove(self, names: Sequence[str]) -> None:
        """Remove objects, up to a thousand in each request."""
        with self._clear_errors(f"{len(names)} objects", "removed"):
            for start in range(0, len(names), _MOST_REMOVED):
                try:
                    obstore.delete(self._store, list(names[start : start + _MOST_REMOVED]))
                except FileNotFoundError as error:  # S3 raises nothing for a missing object, other stores do
                    if _NO_BUCKET.search(str(error)):
                        raise

    def remove_empty_folders(self) -> None:
        """Do nothing: a store has no folders."""

    @contextmanager
    def _clear_errors(self, name: str, done: str) -> Iterator[None]:
        try:
            yield
        except (exceptions.BaseError, OSError, ValueError) as error:
            what = f"{self._shown}/{name}" if name else self._shown
            raise self._error(f"{what} is not {done}: {self._explained(error)}") from None

    def _explained(self, error: Exception) -> str:
        text = str(error)
        reason = _reason(text)
        if _NO_BUCKET.search(text):
            return f"there is no such bucket or container ({reason}). Create it, or correct the URL"
        if _FULL.search(reason):
            return f"the bucket is full ({reason}). Raise its quota, remove what is not needed, or use another folder"
        if _REFUSED.match(reason):
            return f"the store refuses access ({reason}). Check the credentials in the environment, and their rights"
        if "builder error" in text:
            return f"the endpoint is no https URL ({reason}). Correct it, or set AWS_ALLOW_HTTP=true to permit http"
        if "HTTP error" in text or "status code: 5" in text or "status code: 429" in text:
            return (
                f"the store did not answer as it should within about {self._timeout_s:g} s ({reason}). "
                "Check the network and the endpoint, and try again"
            )
        return f"{reason}. Check the URL and the settings in the environment"


def _config_of(again: Retry) -> "RetryConfig":
    assert again.attempts is not None, "obstore wants a number"
    return {
        "max_retries": again.attempts - 1,
        "retry_timeout": timedelta(seconds=again.within_s),
        "backoff": {
            "init_backoff": timedelta(seconds=again.first_pause_s),
            "max_backoff": timedelta(seconds=again.longest_pause_s),
            "base": again.factor,
        },
    }


def _allows_http() -> bool:
    """Tell whether an environment variable allows HTTP; obstore ignores that if it gets other client options."""
    names = ("AWS_ALLOW_HTTP", "AZURE_ALLOW_HTTP", "GOOGLE_ALLOW_HTTP")
    return any(os.environ.get(name, "").lower() in {"1", "true", "yes", "on"} for name in names)


def _pieces(frames: Sequence[memoryview]) -> Iterator[memoryview]:
    for frame in frames:
        for start in range(0, frame.nbytes, _PIECE_BYTES):
            yield frame[start : start + _PIECE_BYTES]


def _reason(text: str) -> str:
    status, code = _STATUS.search(text), _CODE.search(text)
    if status:
        return f"{status[1].strip()}, {code[1]}" if code else status[1].strip()
    return clean(text.partition("\n")[0])


def clean(text: str) -> str:
    """Return a text with user, password and query removed from its URLs.

    >>> clean("GET https://me:secret@host/a?sig=secret failed")
    'GET https://host/a failed'
    """
    return re.sub(r"(\w+://)(?:[^/\s@]*@)?([^\s?]*)(?:\?\S*)?", r"\1\2", text)
