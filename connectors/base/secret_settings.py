"""The settings that a program passes on to a client library, with their secrets by name."""

import re
from collections.abc import Mapping
from typing import Any, Final

from tidewheel.progress import GraphError
from tidewheel.progress.redaction import has_apparent_secret
from tidewheel.runtime.description.secret import Secret

_SECRET: Final = re.compile(
    r"password|secret|key\.pem|token$|user\.info|oauthbearer\.config|account.key|access.key$|sas.(key|token)"
    r"|connection.string|^credential$",
    re.IGNORECASE,
)


def check_secrets(kind: str, argument: str, settings: Mapping[str, Any], variable: str) -> None:
    """Raise GraphError if a setting that is secret by its name, or a URL with a password, is in clear.

    Args:
        kind: what has the settings, for errors.
        argument: the argument that they are.
        settings: by name.
        variable: the name of a variable, as an example.
    """
    for name, value in settings.items():
        if isinstance(value, Secret):
            continue
        if _SECRET.search(name) or (isinstance(value, str) and has_apparent_secret(value)):
            raise GraphError(
                f"{kind}: {argument}[{name!r}] would be pickled with the dataflow. Put it into the environment of the "
                f"workers, and its name here: tw.Secret({variable!r})"
            )


def with_secrets(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with the values of secrets, which this process reads from its environment."""
    return {name: value.value() if isinstance(value, Secret) else value for name, value in settings.items()}
