"""Links over Ray actor calls."""

from collections.abc import Iterator

import numpy as np
import pytest
import ray

from tests.links.conformance import LinkConformance
from tests.links.link_kind import letter
from tests.links.peer_conformance import PeerConformance
from tests.links.ray_kind import RayKind
from tests.links.receiver_conformance import ReceiverConformance
from tidewheel.runtime.links.ray_link import CallReceiver, RaySender

KIND = RayKind()


@pytest.fixture(scope="module")
def actors(ray_cluster: str) -> Iterator[None]:
    """Start the actors, and end them when all tests of this file are done."""
    KIND.start()
    yield
    KIND.stop()


@pytest.mark.ray
@pytest.mark.usefixtures("actors")
class TestLink(LinkConformance):
    kind = KIND


@pytest.mark.ray
@pytest.mark.usefixtures("actors")
class TestPeers(PeerConformance):
    kind = KIND


class TestReceiver(ReceiverConformance):
    def make(self) -> CallReceiver:
        return CallReceiver()


@pytest.mark.ray
@pytest.mark.usefixtures("actors")
def test_arrays_cannot_be_written_to() -> None:
    """Ray lends arrays from memory that others may read, so they are read-only, unlike those over sockets."""
    [address] = KIND.addresses(1)
    RaySender([address], "").send(0, letter(0, 0, np.arange(9), np.arange(20_000), np.arange(1_000_000)))
    assert ray.get(address.actor.writable.remote(address.test)) == [False, False, False]
