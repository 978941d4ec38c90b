"""A live view of a job of this process."""

from functools import partial
from itertools import chain

from tidewheel.console.notebook.live_widget import LiveWidget
from tidewheel.console.page.job_page import JobPage
from tidewheel.pubsub.subscribers.telemetry_reader import TelemetryReader


def job_widget(job: str, chosen: tuple[str, str] = ("none", "")) -> LiveWidget:
    """Return a live view of a job, or a brief view for ``chosen`` such as ``("probe", "done")``.

    When this returns, the view has subscribed, so it also shows the end of a job that is about to end.

    Raises:
        UnknownTopic: the job has ended.
    """
    readers = chain([TelemetryReader(job)], iter(partial(TelemetryReader, job), None))
    return LiveWidget(JobPage(job), partial(next, readers), name=job, chosen=list(chosen))
