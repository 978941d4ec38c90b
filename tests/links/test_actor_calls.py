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
from tidewheel.runtime.worker.envelope import Envelope
from tidewheel.runtime.worker.envelope_codec import ENVELOPES
from tidewheel.transport.ray_link import CallReceiver, RaySender

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
    def make(self) -> CallReceiver[Envelope]:
        return CallReceiver[Envelope]()


@pytest.mark.ray
@pytest.mark.usefixtures("actors")
def test_large_arrays_cannot_be_written_to() -> None:
    """Ray lends large buffers from memory that others may read: their arrays are read-only; small ones are copied."""
    [address] = KIND.addresses(1)
    sender = RaySender[Envelope]([address], "", ENVELOPES)
    sender.send(0, letter(0, 0, np.arange(9), np.arange(20_000), np.arange(1_000_000)))
    assert ray.get(address.actor.writable.remote(address.test)) == [True, False, False]
