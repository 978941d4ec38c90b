"""The bearer token of the gateway: a client that has it may read every topic."""

import hmac
import re
import secrets
from collections.abc import MutableMapping
from pathlib import Path

from tidewheel.pubsub.gateway.errors import GatewayError

VARIABLE = "TIDEWHEEL_TOKEN"
"""The environment variable that a token may come in."""

_RANDOM_BYTES = 32
_FORM = re.compile(r"[A-Za-z0-9._~-]{16,512}")


def new_token() -> str:
    """Return a random token of 43 characters.

    >>> len(new_token()), new_token() == new_token()
    (43, False)
    """
    return secrets.token_urlsafe(_RANDOM_BYTES)


def check_form(token: str, place: str) -> None:
    """Check that a header, a query and a WebSocket's subprotocol can carry a token unchanged.

    Args:
        token: the token, which no message ever shows.
        place: its origin, for the message.

    Raises:
        GatewayError: they cannot, or the token is too short to be a secret.
    """
    if not _FORM.fullmatch(token):
        raise GatewayError(
            f"{place}: a token is 16 to 512 letters, digits and characters of '-._~', and this one is not. "
            "Make one with: python -c 'import secrets; print(secrets.token_urlsafe(32))'"
        )


def given_token(file: str | None, environment: MutableMapping[str, str]) -> str | None:
    """Return the token that the file or, without one, the environment holds; None if neither is there.

    The token is removed from the environment, so that processes started later do not inherit it.

    Raises:
        GatewayError: the file cannot be read, or it holds no token.
    """
    variable = environment.pop(VARIABLE, None)
    if file is None:
        if variable is not None:
            check_form(variable, VARIABLE)
        return variable
    try:
        token = Path(file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise GatewayError(f"the token file {file!r} cannot be read: {error}") from error
    check_form(token, f"the token file {file!r}")
    return token


def is_token(offered: str, token: str) -> bool:
    """Tell whether ``offered`` is the token, in a time that does not depend on how much of it is right."""
    return hmac.compare_digest(offered.encode("utf-8", "surrogateescape"), token.encode())
