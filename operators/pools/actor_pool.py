"""A pool of actors with models, as an attachment of a dataflow: its description."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tidewheel.host.attachment import AttachmentHost, RunningAttachment
from tidewheel.progress.redaction import called
from tidewheel.runtime.errors import JobError

if TYPE_CHECKING:
    from tidewheel.operators.pools.model import MakeModel


@dataclass(frozen=True, slots=True)
class ActorPool:
    """Describes the pool of one operator.

    Args:
        make: makes the model of each actor.
        replicas: the number of actors.
        resources: what each actor reserves, by Ray's names.
    """

    operator: str
    make: "MakeModel"
    replicas: int
    resources: Mapping[str, float] = field(default_factory=dict)

    def start(self, host: AttachmentHost) -> RunningAttachment:
        """Start the actors of a job on Ray, or make the models in this process; wait until one model is made.

        Raises:
            JobError: the model cannot be made, or no actor has come up in time.
        """
        if host.engine == "local":
            from tidewheel.operators.pools.local_pool import LocalPool

            return LocalPool(self, host)
        from tidewheel.operators.pools.ray_pool import RayPool

        return RayPool(self, host)

    def unmade(self, error: BaseException) -> JobError:
        """Return the error of a job whose model cannot be made."""
        return JobError(
            f"operator {self.operator!r}: the model of {called(self.make)} cannot be made: "
            f"{type(error).__name__}: {error}",
            operator=self.operator,
            traceback_text="\n".join(getattr(error, "__notes__", ())),
        )


def pool_name(operator: str) -> str:
    """Return the name of the pool of an operator among the attachments of its dataflow."""
    return f"the actors of {operator!r}"
