"""The place of a folder, of this machine or in an object store, as users give it, and the objects that are there.

A place is checked before `object_store.py`, which takes time to import, is needed.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote, urlsplit

_SCHEMES = ("s3", "gs", "az")


def is_url(place: str) -> bool:
    """Tell whether the place of a folder, from `absolute`, is in an object store."""
    return "://" in place


def absolute(place: str | Path, what: str, error: Callable[[str], Exception]) -> str:
    """Return an absolute path, or a URL without a slash at its end.

    Args:
        place: a path, ``file:///path``, ``s3://bucket/path``, ``gs://bucket/path`` or ``az://container/path``.
        what: what the folder is, for the message.
        error: makes the exception of a message, which has no secret.

    Raises:
        Exception: the URL has another scheme, no bucket, one slash where it needs two, or a secret; ``error`` makes it.
    """
    text = str(place)
    scheme, colon, _ = text.partition(":")
    if not is_url(text) and colon and scheme.lower() in (*_SCHEMES, "file"):
        raise error(f"{text} is no {what}: a URL has two slashes, which a Path removes. Use a text, {scheme}://...")
    if not is_url(text):
        return str(Path(text).expanduser().absolute())
    parts = urlsplit(text)
    if parts.scheme == "file":
        return unquote(parts.path) or "/"
    shown = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
    if parts.scheme not in _SCHEMES or not parts.netloc:
        raise error(
            f"{shown} is no {what}: use a path, file:///path, s3://bucket/path, gs://bucket/path or az://container/path"
        )
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise error(
            f"{shown} is given with a user, a query or a fragment: leave them out, and put credentials into the "
            "environment"
        )
    return text.rstrip("/")


class Objects(Protocol):
    """Objects by name, under a URL. Threads may share it."""

    def put_new(self, name: str, data: bytes) -> bool:
        """Put a small object unless there is one of that name; return whether it was put."""

    def read(self, name: str, size: int = 0) -> bytes | None:
        """Return the bytes of an object, None if there is none; a large ``size`` is read in pieces."""

    def sizes(self, prefix: str) -> Mapping[str, int]:
        """Return the sizes in bytes of the objects in a subfolder, such as ``log/``, by their names; "" is for all."""

    def remove(self, names: Sequence[str]) -> None:
        """Remove objects, those that are there."""
