"""The name of a secret, which stands for its value in a dataflow.

The description of a dataflow is pickled, and travels to all workers. So it has the name, and the process that needs
the value reads it from its environment.
"""

import os
from dataclasses import dataclass

from tidewheel.progress.redaction import conceal
from tidewheel.runtime.errors import ConfigError


@dataclass(frozen=True, slots=True, repr=False)
class Secret:
    """A value that each process reads from its own environment, such as a password.

    It can be a field of a sink, a source, or any object that a dataflow has. Only the name is pickled and shown. In
    errors, logs and descriptions of jobs the name stands in place of a value that was read, if the value has at least
    four characters. Workers on Ray have the environment with which Ray was started on their node.

    Args:
        name: of a variable of the environment.

    Raises:
        ConfigError: no variable can have that name.

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
        """Return the value that the environment of this process has now.

        Raises:
            ConfigError: it has none, or an empty one.
        """
        found = os.environ.get(self.name, "")
        if not found:
            raise ConfigError(
                f"{self!r}: the environment of this process has no value of that name. Set the variable where this "
                "process is started; for workers on Ray that is where Ray is started on each node"
            )
        conceal(found, repr(self))
        return found
