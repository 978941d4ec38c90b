"""The README's programs do what it says."""

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import tidewheel as tw

_README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
_PROGRAMS = re.findall(r"```python\n(.*?)```", _README, re.DOTALL)


@pytest.mark.ray
@pytest.mark.usefixtures("ray_cluster")
def test_the_loop_prints_what_the_readme_shows(capsys: pytest.CaptureFixture[str]) -> None:
    """The first program, as it stands, prints the lines under it."""
    exec(compile(_PROGRAMS[0], "README.md", "exec"), {"__name__": "__main__"})
    shown = re.search(r"```\n\n((?:    \d.*\n)+)", _README)
    assert shown is not None
    assert capsys.readouterr().out == re.sub(r"^    ", "", shown[1], flags=re.MULTILINE)


def test_the_loop_is_about_twenty_lines() -> None:
    """The README promises 20 lines."""
    assert len([line for line in _PROGRAMS[0].splitlines() if line.strip()]) <= 20


@pytest.mark.parametrize("workers", [1, 2])
def test_the_operators_at_hand_do_what_they_say(workers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program with operators of the library runs as it stands, from files to files, and loses no trip."""
    monkeypatch.chdir(tmp_path)
    Path("trips").mkdir()
    trips = {"driver": ["a", "b", "a", "a"], "start": [0, 100, 1000, 9000], "fare": [5, 7, 0, 2]}
    pq.write_table(pa.table(trips), "trips/1.parquet")
    stored = []

    async def store(visit: tw.WindowResult[Any]) -> str:
        stored.append((visit.key, [trip["start"] for trip in visit.value]))
        return str(visit.key)

    flow = tw.Dataflow("at hand")
    names = {"tw": tw, "pc": pc, "flow": flow, "store": store}
    [program] = [text for text in _PROGRAMS if "SessionWindows" in text]
    exec(compile(program, "README.md", "exec"), names)
    names["fares"].capture("fares")
    names["words"].capture("words")
    with tw.run(flow, workers=workers, engine="local") as job:
        with job.input("lines") as lines:
            lines.send(["to be", "or not to be"])
        job.wait(timeout=60)
        fares = [row for entry in job.captured("fares") for row in entry.batch.to_pylist()]
        words = sorted(pair for entry in job.captured("words") for pair in entry.batch)
    assert sorted(fares, key=lambda row: row["driver"]) == [
        {"driver": "a", "total": 7},
        {"driver": "b", "total": 7},
    ]
    assert words == [("be", 2), ("not", 1), ("or", 1), ("to", 2)]
    assert sorted(stored) == [("a", [0, 1000]), ("a", [9000]), ("b", [100])]


@pytest.mark.parametrize("workers", [1, 2])
def test_the_operator_sorts_each_epoch(workers: int) -> None:
    """The second program sends each epoch once, sorted, when it is complete."""
    flow = tw.Dataflow("sorting")
    stream = flow.input("numbers")
    names: dict[str, Any] = {"stream": stream}
    [program] = [text for text in _PROGRAMS if "def sort_epochs" in text]
    exec(compile(program.replace("stream.unary", "made = stream.unary"), "README.md", "exec"), names)
    names["made"].capture("sorted")
    with tw.run(flow, workers=workers, engine="local") as job:
        numbers = job.input("numbers")
        for batch in ([5, 1], [4]):
            numbers.send(batch)
        numbers.advance_to(1)
        numbers.send([3, 2])
        numbers.close()
        job.wait()
        sorted_epochs: dict[int, list[int]] = {}
        for entry in job.captured("sorted"):
            assert entry.batch == sorted(entry.batch)
            sorted_epochs.setdefault(entry.time, []).extend(entry.batch)
    assert {time: sorted(numbers) for time, numbers in sorted_epochs.items()} == {0: [1, 4, 5], 1: [2, 3]}


def test_what_is_waited_for_can_be_read(capsys: pytest.CaptureFixture[str]) -> None:
    """The program that feeds, waits and reads runs as it stands."""
    [program] = [text for text in _PROGRAMS if "wait_until" in text]
    exec(compile(program, "README.md", "exec"), {"tw": tw})
    assert capsys.readouterr().out == "[('be', 2), ('not', 1), ('or', 1), ('to', 2)]\n"


def test_the_subscriber_sees_what_it_wants(capsys: pytest.CaptureFixture[str]) -> None:
    """The program that subscribes runs as it stands, given a topic."""
    flow = tw.Dataflow("lengths")
    flow.source("pairs", tw.IterableSource([[(0, [(6, 8), (27, 111)]), (1, [(97, 118)])]])).publish("lengths")
    [program] = [text for text in _PROGRAMS if "epochs(timeout=60)" in text]
    with tw.run(flow, engine="local"):
        exec(compile(program, "README.md", "exec"), {"tw": tw})
    assert capsys.readouterr().out == "0 [(27, 111)]\n1 [(97, 118)]\n"


@pytest.mark.ray
@pytest.mark.usefixtures("ray_cluster")
def test_two_dataflows_are_fed_from_anywhere() -> None:
    """The program that hands handles to tasks runs as it stands, given two dataflows."""
    import ray

    def counting(name: str) -> tw.Dataflow:
        flow = tw.Dataflow(name)
        flow.input("lines").flat_map(str.split).capture("words")
        return flow

    [program] = [text for text in _PROGRAMS if "job.add(second)" in text]
    shown = (
        program.rstrip()
        + "\n    found = [sorted(r for e in j.captured('words') for r in e.batch) for j in (job, lengths)]\n"
    )
    names = {"tw": tw, "ray": ray, "flow": counting("words"), "second": counting("more words")}
    exec(compile(shown, "README.md", "exec"), names)
    assert names["found"] == [sorted(["to", "be", "or", "not", "to", "be"]), sorted(["that", "is", "the", "question"])]
