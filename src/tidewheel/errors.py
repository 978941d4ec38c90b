"""The errors that few programs catch; each is a `tidewheel.TidewheelError`.

`GraphError`, `JobError`, `DeliveryError` and `JobRolledBack`, which more programs catch, are in `tidewheel`.
"""

from typing import TYPE_CHECKING, Final

from tidewheel.public_names import public_names

if TYPE_CHECKING:
    from tidewheel.pubsub.errors import NoCluster as NoCluster
    from tidewheel.pubsub.errors import PublisherLost as PublisherLost
    from tidewheel.pubsub.errors import SchemaMismatch as SchemaMismatch
    from tidewheel.pubsub.errors import UnknownTopic as UnknownTopic
    from tidewheel.runtime.errors import ConfigError as ConfigError
    from tidewheel.runtime.errors import SnapshotError as SnapshotError
    from tidewheel.runtime.errors import TokenError as TokenError
    from tidewheel.runtime.errors import WouldBlock as WouldBlock
    from tidewheel.storage.stored_files import FileChanged as FileChanged

_WHERE: Final = {
    "tidewheel.pubsub.errors": ("NoCluster", "PublisherLost", "SchemaMismatch", "UnknownTopic"),
    "tidewheel.runtime.errors": ("ConfigError", "SnapshotError", "TokenError", "WouldBlock"),
    "tidewheel.storage.stored_files": ("FileChanged",),
}
"""The names of each module, which must agree with the imports for type checkers above."""

if not TYPE_CHECKING:
    __all__, __getattr__, __dir__ = public_names(__name__, _WHERE)
