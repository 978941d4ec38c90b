"""`run`, which deploys a dataflow."""

from typing import Literal

from tidewheel.host.log_lines import write_lines
from tidewheel.progress import GraphError
from tidewheel.runtime.description.checked_records import checked
from tidewheel.runtime.description.dataflow_description import Described, description_of
from tidewheel.runtime.description.loose_ends import warn_of_loose_ends
from tidewheel.runtime.description.runtime_config import RuntimeConfig
from tidewheel.runtime.description.shards import SHARDS
from tidewheel.runtime.engines.job import Job
from tidewheel.runtime.errors import ConfigError
from tidewheel.runtime.snapshots.snapshots import Snapshots


def run(
    flow: Described,
    *,
    workers: int = 1,
    engine: Literal["ray", "local"] = "ray",
    paused: bool = False,
    config: RuntimeConfig | None = None,
    snapshots: Snapshots | None = None,
    page: bool = False,
) -> Job:
    """Deploy a dataflow and run it.

    Args:
        flow: the dataflow. You may run it several times.
        workers: the number of workers that share the records, at most 1,024; each runs every operator.
        engine: ``"ray"`` hosts each worker in a Ray actor. The cluster is this process's, else that of RAY_ADDRESS,
            else that of ``ray start`` on this machine, else a new one that ends with this process; the log names it.
            ``"local"`` runs all workers in this process whenever the driver waits, in the same order in every run.
        paused: whether only to deploy the job, so that subscribers can connect before the first record; `Job.start`
            then runs it.
        config: limits, deadlines and transports; by default those of the environment.
        snapshots: where the job keeps snapshots. The job continues from the last snapshot, if there is one.
        page: whether to serve a live page of this process's jobs, and write its address to standard error. Needs the
            extra ``gateway``.

    Raises:
        GraphError: the dataflow is wrong: a feedback is not connected, a cycle does not advance time, or an operator
            cannot be pickled.
        ConfigError: a setting, here or in the environment, is wrong.
        JobError: deployment failed, or no cluster answers at the address, which the message names.
        SnapshotError: another job uses the folder of snapshots, the folder cannot be read, or the last snapshot does
            not fit the dataflow.
        GatewayError: the libraries of the page are not installed.
    """
    description = description_of(flow, "run()")
    if not isinstance(workers, int) or isinstance(workers, bool) or not 1 <= workers <= SHARDS:
        expected = f"a whole number from 1 to {SHARDS}, the number of shards"
        raise GraphError(f"dataflow {description.name!r}: workers must be {expected}, not {workers!r}")
    if config is not None and not isinstance(config, RuntimeConfig):
        raise ConfigError(f"dataflow {description.name!r}: config must be a RuntimeConfig, not {config!r}")
    settings = RuntimeConfig() if config is None else config
    write_lines(settings.log_level, settings.log_format)
    plan = checked(description.plan(), settings.check_records)
    warn_of_loose_ends(description)
    shown = description.telemetry.page() if page and description.telemetry is not None else None
    if snapshots is not None and not isinstance(snapshots, Snapshots):
        raise ConfigError(f"dataflow {description.name!r}: snapshots must be Snapshots(folder), not {snapshots!r}")
    job: Job
    if engine == "local":
        from tidewheel.runtime.engines.local_job import LocalJob

        job = LocalJob(plan, workers, settings)
    elif engine == "ray":
        from tidewheel.runtime.engines.ray_job import RayJob

        job = RayJob(plan, workers, settings)
    else:
        raise GraphError(f"dataflow {description.name!r}: engine is 'ray' or 'local', not {engine!r}")
    job._bring_up(description, paused=paused, snapshots=snapshots)
    if shown is not None:
        shown.show(job.name)
    return job
