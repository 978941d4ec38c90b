"""The attachments of a running job: the publications of its topics, and pools of actors."""

import logging
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from tidewheel.host.attachment import Attachment, AttachmentHost, RunningAttachment, RunningTopic
from tidewheel.host.log_lines import about
from tidewheel.progress import TidewheelError
from tidewheel.runtime.errors import AttachmentGone, CannotGoBack, JobError

_LOGGER = logging.getLogger(__name__)
_FINISH_TIMEOUT_S = 10.0


class RunningAttachments:
    def __init__(self, job: str) -> None:
        self._job = job
        self._finishing = threading.RLock()
        self.by_name: dict[str, RunningAttachment] = {}

    def start(self, attachments: Mapping[str, Attachment], host: AttachmentHost) -> None:
        """Start all attachments. If one raises, `finish` ends those that have started."""
        for name, attachment in attachments.items():
            self.by_name[name] = attachment.start(host)

    def finish(self, reason: str | None, *, on_purpose: bool = False) -> None:
        """End all attachments: as complete if ``reason`` is None, otherwise as failed, or stopped ``on_purpose``.

        Idempotent. If another thread is already ending them, wait for it.
        """
        with self._finishing:
            for name, running in self.by_name.items():
                try:
                    running.finish(reason, _FINISH_TIMEOUT_S, on_purpose=on_purpose)
                except Exception:
                    said = "job %r could not end %r in good order"
                    _LOGGER.exception(said, self._job, name, extra=about(self._job))

    def go_back(self, nodes: Sequence[str]) -> None:
        """Prepare all attachments for a return to a snapshot, with workers on these nodes.

        Raises:
            CannotGoBack: an attachment cannot return.
        """
        for name, running in self.by_name.items():
            try:
                running.go_back(nodes)
            except TidewheelError as error:
                raise CannotGoBack(
                    f"job {self._job!r} cannot go back to a snapshot because of {name!r}: {error}"
                ) from error

    @property
    def pending(self) -> list[Any]:
        return [call for running in self.by_name.values() for call in running.pending]

    @property
    def have_ended(self) -> bool:
        return all(running.has_ended for running in self.by_name.values())

    @property
    def topics(self) -> dict[str, RunningTopic]:
        return {name: running for name, running in self.by_name.items() if isinstance(running, RunningTopic)}

    def check(self) -> None:
        """Raise AttachmentGone if an attachment has died, or the JobError with which it fails the job."""
        for name, running in self.by_name.items():
            try:
                running.check()
            except JobError:
                raise
            except TidewheelError as error:
                raise AttachmentGone(f"job {self._job!r} has lost {name!r}: {error}") from error

    def handles_for(self, worker: int) -> dict[str, Any]:
        return {name: running.handles[worker] for name, running in self.by_name.items()}

    def problems(self) -> list[str]:
        found = {name: running.problem for name, running in self.by_name.items()}
        topics = self.topics
        return [
            f"topic {name!r}: {problem}" if name in topics else f"{name}: {problem}"
            for name, problem in found.items()
            if problem is not None
        ]
