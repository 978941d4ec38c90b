"""The bearer token: whoever has it may read every topic."""

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
    """Return a token that nobody can guess, of 43 characters.

    >>> len(new_token()), new_token() == new_token()
    (43, False)
    """
    return secrets.token_urlsafe(_RANDOM_BYTES)


def check_form(token: str, place: str) -> None:
    """Check that a token can be sent in a header, in a query and as a WebSocket's subprotocol, as it is.

    Args:
        token: the token, which no message ever shows.
        place: where it came from, for the message.

    Raises:
        GatewayError: it cannot, or it is too short to be a secret.
    """
    if not _FORM.fullmatch(token):
        raise GatewayError(
            f"{place}: a token is 16 to 512 letters, digits and characters of '-._~', and what is there is not; "
            "python -c 'import secrets; print(secrets.token_urlsafe(32))' makes one"
        )


def given_token(file: str | None, environment: MutableMapping[str, str]) -> str | None:
    """Return the token that the file or, without one, the environment holds; None if neither is there.

    It is taken out of the environment, so that processes started later do not inherit it.

    Raises:
        GatewayError: the file cannot be read, or what there is is no token.
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
    """Tell whether ``offered`` is the token, in a time that does not tell how much of it is right."""
    return hmac.compare_digest(offered.encode("utf-8", "surrogateescape"), token.encode())
