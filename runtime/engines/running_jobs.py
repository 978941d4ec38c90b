"""The jobs that a process finds by name: those of a Ray cluster, by the names of actors, and its own local jobs."""

from collections import Counter
from collections.abc import MutableMapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakValueDictionary

from tidewheel.host.ray_cluster import NAMESPACE, connect_to_running
from tidewheel.host.worker_names import WORKER_PREFIX, worker_name
from tidewheel.runtime.errors import JobError

if TYPE_CHECKING:
    from tidewheel.runtime.engines.local_job import LocalJob

LOCAL_JOBS: "Final[MutableMapping[str, LocalJob]]" = WeakValueDictionary()
"""The jobs of this process with ``engine="local"``, by name, including jobs that have ended."""

_ANSWER_S = 5.0
_EXPLAIN_S = 15.0


@dataclass(frozen=True, slots=True)
class RunningJob:
    """One running dataflow on a cluster.

    Attributes:
        host: the job on whose workers this job runs; itself, unless it was added to another job.
        state: ``paused``, ``running``, ``complete`` or ``failed``; ``silent`` if worker 0 does not answer.
    """

    name: str
    host: str
    workers: int
    state: str
    probes: str


def running_jobs() -> list[RunningJob]:
    """Return the jobs of all Ray namespaces, by name; raise JobError without a cluster."""
    connect_to_running(JobError)
    import ray

    names = [actor["name"] for actor in ray.util.list_named_actors(all_namespaces=True)]
    ours = [name.removeprefix(WORKER_PREFIX).rpartition("-worker-") for name in names if name.startswith(WORKER_PREFIX)]
    hosts = Counter(host for host, _, _ in ours if host)
    found: list[RunningJob] = []
    for host, workers in hosts.items():
        try:
            states = ray.get(_worker(host, 0).states.remote(), timeout=_ANSWER_S)
        except ray.exceptions.GetTimeoutError:
            states = {host: ("silent", "")}
        except (ValueError, ray.exceptions.RayError):  # it has just ended
            states = {}
        found += [RunningJob(name, host, workers, *state) for name, state in states.items()]
    return sorted(found, key=lambda job: job.name)


def running_here() -> list[RunningJob]:
    """Return the local jobs of this process, by name."""
    jobs = [job for job in list(LOCAL_JOBS.values()) if not job._life.has_ended]
    found = [RunningJob(job.name, job._host, job.workers, "running", "") for job in jobs]
    return sorted(found, key=lambda job: job.name)


def explain_job(job: str, name: str) -> str:
    """Return in words what holds back a probe, topic or capture of a running job.

    Args:
        job: the job's name, or that of its dataflow if only one job runs it.
        name: the probe, topic or capture.

    Raises:
        JobError: there is no cluster, none or several such jobs, or nothing of that name in the job.
    """
    one = find_job(running_jobs(), job)
    import ray

    try:
        workers = workers_of(one)
        return str(ray.get(workers[0].explain.remote(one.name, name, workers), timeout=_EXPLAIN_S))
    except ray.exceptions.RayTaskError as error:
        raise (error.cause if isinstance(error.cause, JobError) else JobError(str(error))) from None
    except (ValueError, ray.exceptions.RayError) as error:
        raise JobError(f"job {one.name!r} does not answer, or has just ended: {error}") from error


def find_job(jobs: Sequence[RunningJob], name: str) -> RunningJob:
    """Return the job with a name, or the only job of a dataflow with that name; raise JobError if there is none."""
    matching = jobs_named(jobs, name)
    if len(matching) != 1:
        names = ", ".join(one.name for one in matching or jobs) or "none"
        raise JobError(f"{len(matching) or 'no'} jobs {name!r} run on the cluster: name one of {names}")
    return matching[0]


def jobs_named(jobs: Sequence[RunningJob], name: str) -> list[RunningJob]:
    """Return the job with a name, or all jobs of a dataflow with that name."""
    return [one for one in jobs if name == one.name] or [one for one in jobs if name == one.name.rpartition("-")[0]]


def workers_of(job: RunningJob) -> list[Any]:
    """Return the actors of a job's workers; raise ValueError if one is missing."""
    return [_worker(job.host, worker) for worker in range(job.workers)]


def _worker(job: str, worker: int) -> Any:
    import ray

    return ray.get_actor(worker_name(job, worker), namespace=NAMESPACE)
