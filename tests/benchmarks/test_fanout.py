"""The benchmark of many subscribers runs on Ray, beside NATS if there is one, and leaves nothing behind."""

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests.benchmarks.quick_run import Figures, quick_run
from tests.ray.leftovers import nothing_left

pytestmark = [pytest.mark.ray, pytest.mark.long]

MANY, FEW = 200, 40
FAULTS = ("a link is broken for 3 s", "an upper relay is stopped", "the publisher is killed")


@pytest.fixture(scope="module")
def picture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the picture is."""
    return tmp_path_factory.mktemp("fanout") / "recovery.svg"


@pytest.fixture(scope="module")
def figures(ray_cluster: str, picture: Path) -> Figures:
    """The figures of one quick run; it fails if a subscriber has not received every message once, in order."""
    with nothing_left():
        return quick_run("topics.fanout", "--picture", str(picture), RAY_ADDRESS=ray_cluster)


def test_acknowledgements_cost_the_machines_the_same_for_many(figures: Figures) -> None:
    """In bytes, and in positions that the publisher keeps: one for each relay that is its child."""
    what = "machines alone, 2000 subscribers"
    assert figures["expectations"][f"{what} by 100: bytes up to the publisher"] <= 1.1
    assert figures["rows"][f"{what}, kept: by the publisher"] == 2


@pytest.mark.parametrize("when", ["each message", "an idle second"])
@pytest.mark.parametrize("count", [FEW, MANY])
def test_every_hop_is_measured(figures: Figures, count: int, when: str) -> None:
    """Down and up, from the publisher to the subscribers, and the publisher's time."""
    hops = [name for name in figures["rows"] if name.startswith(f"{count} subscribers, {when}: ")]
    assert len(hops) == 6
    assert figures["rows"][f"{count} subscribers, an idle second: lower relays to subscribers"] > 0
    assert f"{count} subscribers, publisher: {when}" in figures["rows"]


def test_the_publisher_hears_no_more_of_many(figures: Figures) -> None:
    """Relays acknowledge for all their readers together."""
    for count in (FEW, MANY):
        assert figures["expectations"][f"{count} subscribers: bytes up to the publisher, each second and relay"] <= 1000


def test_latencies_are_those_of_all_subscribers(figures: Figures) -> None:
    """Of tidewheel, and of NATS where it is installed."""
    rows = figures["rows"]
    names = {row.split(", ")[1].partition(":")[0] for row in rows if row.startswith(f"{MANY} ") and row.endswith("p50")}
    assert "tidewheel" in names
    for name in names:
        assert 0 < rows[f"{MANY} subscribers, {name}: p50"] <= rows[f"{MANY} subscribers, {name}: p99"]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_causes_no_explosion_of_nacks(figures: Figures, fault: str) -> None:
    """Each hop is measured, and so is the delay of messages; the tree is as before in the end."""
    rows = figures["rows"]
    assert len([row for row in rows if row.startswith(f"{FEW} subscribers, {fault}: over ")]) == 3
    assert rows[f"{FEW} subscribers, {fault}, below: the longest"] > 0
    assert rows[f"{FEW} subscribers, {fault}, below: until it is as before"] < 20
    assert figures["expectations"][f"{fault}: nacks at the publisher"] <= 100


def test_the_recovery_is_a_picture(figures: Figures, picture: Path) -> None:
    """With a panel for each fault."""
    assert figures
    root = ET.parse(picture).getroot()
    texts = [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")]
    assert [text for text in texts if text in {fault[0].upper() + fault[1:] for fault in FAULTS}] != []
