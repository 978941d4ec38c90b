"""The settings of a client library: each secret is given by its name, not in plain text."""

import re
from collections.abc import Mapping
from typing import Any, Final

from tidewheel.progress import GraphError
from tidewheel.progress.redaction import has_apparent_secret
from tidewheel.runtime.description.secret import Secret

_SECRET: Final = re.compile(
    r"password|secret|seed_str|key\.pem|token$|user\.info|oauthbearer\.config|account.key|access.key$|sas.(key|token)"
    r"|connection.string|^credential$|authorization|api.?key|master.key|customer.key",
    re.IGNORECASE,
)


def check_secrets(kind: str, argument: str, settings: Mapping[str, Any], variable: str) -> None:
    """Raise GraphError if a setting with a secret name, or a URL with a password, is in plain text.

    Args:
        kind: the class with the settings, for errors.
        argument: the name of the argument with the settings, for errors.
        settings: values by name; a value may be a mapping of further settings.
        variable: an example of an environment variable, for errors.
    """
    for name, value in settings.items():
        if isinstance(value, Secret):
            continue
        where = f"{argument}[{name!r}]"
        if _SECRET.search(str(name)) or (isinstance(value, str) and has_apparent_secret(value)):
            raise GraphError(
                f"{kind}: {where} would be pickled with the dataflow. Put it into the environment of the workers, and "
                f"its name here: tw.Secret({variable!r})"
            )
        if isinstance(value, Mapping):
            check_secrets(kind, where, value, variable)


def with_secrets(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings with each `Secret`, at any depth, replaced by its value in this process's environment."""
    return {name: _with_secrets(value) for name, value in settings.items()}


def _with_secrets(value: Any) -> Any:
    if isinstance(value, Mapping):
        return with_secrets(value)
    return value.value() if isinstance(value, Secret) else value
