"""Running a dataflow."""

from typing import Literal, get_args

from tidewheel.progress import GraphError, SpreadName
from tidewheel.runtime.dataflow_description import DataflowDescription
from tidewheel.runtime.job import Job
from tidewheel.runtime.links.link import LinkName


def run(
    flow: DataflowDescription,
    *,
    workers: int = 1,
    engine: Literal["ray", "local"] = "ray",
    paused: bool = False,
    progress: SpreadName = "broadcast",
    link: LinkName = "socket",
) -> Job:
    """Deploy a dataflow and let it run.

    Args:
        flow: the dataflow; it may be run several times.
        workers: how many workers share the records; each runs every operator.
        engine: ``"ray"`` hosts each worker in a Ray actor, on the cluster that this process is connected to, else on
            the one that RAY_ADDRESS names, else on a new one on this machine. ``"local"`` runs all of them in this
            process, the same way every time, whenever the driver waits for something.
        paused: deploy only, so that subscribers can connect before the first record; `Job.start` lets it run.
        progress: how workers tell each other what happened to their pointstamps. ``"broadcast"``: each tells each, in
            one trip. ``"accumulated"``: all tell one of them, which tells all the net changes: two trips, but as many
            messages as there are workers and not their square; for many workers.
        link: what carries data and progress between the actors. ``"socket"``: ZeroMQ, within a node through its file
            system, between nodes over TCP, encrypted with keys of this job. ``"ray"``: calls of the actors, slower,
            where nodes can reach each other by nothing else. The local engine needs neither.

    Raises:
        GraphError: the dataflow is wrong: a feedback without connection, a cycle that does not advance time, an
            operator that cannot be pickled.
        JobError: it could not be deployed.
    """
    if not isinstance(flow, DataflowDescription):
        raise GraphError(f"run() takes a Dataflow, not {flow!r}")
    if not isinstance(workers, int) or isinstance(workers, bool) or workers < 1:
        raise GraphError(f"dataflow {flow.name!r}: workers must be a whole number, 1 or more, not {workers!r}")
    if progress not in get_args(SpreadName):
        raise GraphError(f"dataflow {flow.name!r}: progress is 'broadcast' or 'accumulated', not {progress!r}")
    if link not in get_args(LinkName):
        raise GraphError(f"dataflow {flow.name!r}: link is 'socket' or 'ray', not {link!r}")
    plan = flow.plan()
    if engine == "local":
        from tidewheel.runtime.local_job import LocalJob

        return LocalJob(plan, workers, flow.attachments, paused, progress)
    if engine == "ray":
        from tidewheel.runtime.ray_job import RayJob

        return RayJob(plan, workers, flow.attachments, paused, progress, link)
    raise GraphError(f"dataflow {flow.name!r}: engine is 'ray' or 'local', not {engine!r}")
