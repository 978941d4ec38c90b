"""One Ray cluster for all tests that need a real one."""

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session")
def ray_cluster() -> Iterator[str]:
    """Start Ray on this machine for the session and give its address, for ``RAY_ADDRESS`` of other processes."""
    import ray

    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False, namespace="tidewheel")
    yield str(ray.get_runtime_context().gcs_address)
    ray.shutdown()
