"""The processes of a topic on Ray log as the process that starts them."""

import io
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ray

import tidewheel as tw
from tidewheel.pubsub.catalog.catalog_actor import find_catalog

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_cluster")]

DEADLINE_S = 60.0


@pytest.fixture
def logger(monkeypatch: pytest.MonkeyPatch) -> Iterator[logging.Logger]:
    """The logger of tidewheel, which is afterwards as it was."""
    found = logging.getLogger("tidewheel")
    level = found.level
    monkeypatch.setattr(found, "handlers", [])
    monkeypatch.setattr(found, "propagate", found.propagate)
    yield found
    found.setLevel(level)


def line_of(_: Any) -> str:
    """Return what the process of an actor writes where something is logged; runs there."""
    [handler] = logging.getLogger().handlers
    assert isinstance(handler, logging.StreamHandler)
    written = io.StringIO()
    before = handler.setStream(written)
    logging.getLogger("tidewheel.here").info("one")
    handler.setStream(before)
    return written.getvalue()


def test_publishers_relays_and_the_catalog_log_as_the_driver(logger: logging.Logger, tmp_path: Path) -> None:
    """In lines of JSON, of the level of the driver, with what they are for."""
    catalog = find_catalog()
    if catalog is not None:  # that of other tests logs as these
        ray.kill(catalog)
    flow = tw.Dataflow("logged")
    flow.input("numbers").publish("logged numbers", log=tw.Log(tmp_path))
    config = tw.RuntimeConfig(log_level="INFO", log_format="json")
    with tw.run(flow, workers=1, config=config) as job, tw.relay("logged numbers", timeout_s=DEADLINE_S) as relays:
        publishers: list[Any] = vars(job.topic("logged numbers"))["_publishers"]
        actors = [*publishers, *relays.actors, find_catalog()]
        lines = ray.get([actor.__ray_call__.remote(line_of) for actor in actors], timeout=DEADLINE_S)
        said = [{name: value for name, value in json.loads(line).items() if name != "time"} for line in lines]
        about = {"level": "INFO", "logger": "tidewheel.here", "message": "one"}
        assert said == [
            {**about, "job": job.name, "topic": "logged numbers", "partition": 0},
            {**about, "topic": "logged numbers", "relay": relays.names[0]},
            {**about, "actor": "tidewheel-catalog"},
        ]
        job.input("numbers").close()
        job.wait(DEADLINE_S)
