"""Removes secrets from texts: passwords that a pattern finds, and values of `Secret` objects read by this process.

Errors, log lines and descriptions of jobs are redacted when they are made, in the process that knows the secrets.
"""

import json
import re
import threading
from functools import partial
from typing import Final
from urllib.parse import quote, quote_plus

SHORTEST: Final = 4
"""The least length of a value that is redacted, in characters. A shorter value may be a part of other words."""

_SECRET: Final = re.compile(
    r"""(?ix) (?P<url> :/{1,3})  # behind it the user of a URL; clients also take passwords with slashes
      (?: [^/?\#\s]{1,512} | [^/?\#\s@:]{0,256} : (?!\d+[/?\#]) [^\s@]{1,256} ) (?=@)
    | (?P<bearer> bearer\s) \S+
    | (?P<query> [?&;] (?: token | sig | signature | key | pwd ) = ) [^\s&;"']+
    | (?P<named> (?: password | passwd | secret(?:.?key)? | access.?key | api.?key | credentials? | (?<=\w)_token )
      ["']? \s{0,8} [:=] \s{0,8} ["']? ) [^\s"',;&]+
    """
)
"""Each repetition has a limit or is within the replaced text, so the search takes linear time on any text."""

_changing = threading.Lock()
_values: list[tuple[str, str]] = []
"""The forms of secret values, each with its replacement, the longest form first."""


def conceal(value: str, shown: str) -> None:
    """Let `redacted` replace the secret ``value`` and its usual escaped forms with ``shown``."""
    if len(value) < SHORTEST:
        return
    with _changing:
        known = dict(_values)
        if value not in known:
            forms = {value, repr(value)[1:-1], json.dumps(value)[1:-1], quote(value, safe=""), quote_plus(value)}
            known.update(dict.fromkeys(forms, shown))
            _values[:] = sorted(known.items(), key=lambda entry: -len(entry[0]))  # at once: other threads read the list


def redacted(text: str) -> str:
    """Return a text in which known secrets, and whatever looks like a password, key or token, are replaced; linear.

    >>> redacted("no answer from s3://me:pw@host, secret_key='abc'; 1 token: time 3")
    "no answer from s3://***@host, secret_key='***'; 1 token: time 3"
    """
    for value, shown in tuple(_values):
        text = text.replace(value, shown)
    return _SECRET.sub(_hidden, text)


def has_apparent_secret(text: str) -> bool:
    """Tell whether a text seems to contain a password, key or token.

    >>> has_apparent_secret("s3://me:pw@host"), has_apparent_secret("s3://tides/prices")
    (True, False)
    """
    return _SECRET.search(text) is not None


def called(function: object) -> str:
    """Return the name of a function, or of an object's class, without its fields, which may contain secrets.

    >>> from functools import partial
    >>> called(len), called(partial(open, "file")), called(re.compile("a"))
    ('len', 'partial of open', 'an object of Pattern')
    """
    if isinstance(function, partial):
        return f"partial of {called(function.func)}"
    name = getattr(function, "__qualname__", None)
    return name if isinstance(name, str) else f"an object of {type(function).__qualname__}"


def _hidden(found: re.Match[str]) -> str:
    return f"{found['url'] or found['bearer'] or found['query'] or found['named']}***"
