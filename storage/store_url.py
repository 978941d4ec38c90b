"""The place of a file or folder, as users write it: a path on this machine, or a URL of an object store.

The checks do not import `object_store.py`, whose import is slow.
"""

import os
import re
from collections.abc import Callable
from pathlib import Path
from reprlib import repr as short
from typing import TypeGuard
from urllib.parse import unquote, urlsplit

_SCHEMES = ("s3", "gs", "az")
_URL = re.compile(r"[a-z][a-z0-9+.-]+:/", re.IGNORECASE)
"""How a URL begins. One slash is enough: a URL that was made a Path has lost the other."""


def is_place(given: object) -> TypeGuard[str | os.PathLike[str]]:
    """Tell whether ``given`` may be a path or a URL: a non-empty string or `os.PathLike` without NUL.

    >>> is_place("data"), is_place(Path("data")), is_place(None), is_place(b"data"), is_place("")
    (True, True, False, False, False)
    """
    if not isinstance(given, str | os.PathLike):
        return False
    text = os.fspath(given)
    return isinstance(text, str) and bool(text) and "\0" not in text


def local_path(given: object, what: str, error: Callable[[str], Exception]) -> Path:
    """Return ``given`` as a file system path.

    Raises:
        Exception: made by ``error``: ``given`` is not a path, or is a URL.
    """
    if not is_place(given):
        raise error(f"{what} is a text or a pathlib.Path, not {short(given)}")
    text = os.fspath(given)
    if _URL.match(text):
        parts = urlsplit(text)
        shown = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
        raise error(
            f"{what} is a path of a file system that all nodes see, and {shown} is a URL, which is not supported here: "
            "mount what is there, or use another folder and copy the files"
        )
    return Path(text)


def is_url(place: str) -> bool:
    """Tell whether a place returned by `absolute` is in an object store."""
    return "://" in place


def absolute(place: str | os.PathLike[str], what: str, error: Callable[[str], Exception]) -> str:
    """Return an absolute path, or a URL without a final slash.

    Raises:
        Exception: made by ``error``: the URL has another scheme, no bucket, one slash where it needs two, or a secret.
    """
    text = os.fspath(place)
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
