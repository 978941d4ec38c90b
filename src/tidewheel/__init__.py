"""A dataflow runtime for Python on Ray: operators in graphs that may have cycles, coordinated by timestamp tokens."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidewheel.names import *  # noqa: F403
    from tidewheel.names import __all__ as __all__

__version__ = "0.1.0"


def _load() -> None:
    """Load all public names. A publisher, a relay and the catalog ask for none, so their processes start sooner."""
    names = import_module("tidewheel.names")
    globals().update({name: getattr(names, name) for name in names.__all__}, __all__=names.__all__)


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if not name.startswith("__") or name == "__all__":
            _load()
            if name in globals():
                return globals()[name]
        raise AttributeError(f"module 'tidewheel' has no attribute {name!r}")

    def __dir__() -> list[str]:
        _load()
        return sorted(globals())
