"""A reference to a secret by name, for use in a dataflow.

The description of a dataflow, which all workers receive, has only the name. A process that needs the value reads it
from its own environment.
"""

import os
from dataclasses import dataclass

from tidewheel.progress.redaction import conceal
from tidewheel.runtime.errors import ConfigError


@dataclass(frozen=True, slots=True, repr=False)
class Secret:
    """A value, such as a password, that each process reads from its own environment.

    A secret can be a field of a sink, a source, or any object of a dataflow. Only its name is pickled and shown. Once
    the value is read, the name replaces it in errors, logs and descriptions of jobs, if it has at least four
    characters. Workers on Ray have the environment in which Ray was started on their node.

    Args:
        name: the name of an environment variable.

    Raises:
        ConfigError: ``name`` is not a valid name of a variable.

    >>> import os
    >>> os.environ["SHOP_PASSWORD"] = "for-the-example"
    >>> password = Secret("SHOP_PASSWORD")
    >>> password
    Secret('SHOP_PASSWORD')
    >>> password.value()
    'for-the-example'
    """

    name: str

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name or set(self.name) & set("=\0"):
            raise ConfigError("Secret: it has the name of a variable of the environment, such as Secret('DB_PASSWORD')")

    def __repr__(self) -> str:
        return f"Secret({self.name!r})"

    def value(self) -> str:
        """Return the value in this process's environment now; raise ConfigError if it is missing or empty."""
        found = os.environ.get(self.name, "")
        if not found:
            raise ConfigError(
                f"{self!r}: the environment of this process has no value of that name. Set the variable where this "
                "process is started; for workers on Ray that is where Ray is started on each node"
            )
        conceal(found, repr(self))
        return found
