"""The command line, on topics of a local job."""

import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import tidewheel as tw
from tidewheel.__main__ import main
from tidewheel.pubsub.subscribers.topics import watch_topics
from tidewheel.runtime.snapshots.names import blob_name
from tidewheel.runtime.snapshots.snapshot_folder import SnapshotFolder

TOPIC = "command line"


@pytest.fixture(autouse=True)
def no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look for no cluster on this machine, where somebody else's may run."""
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")


@pytest.fixture
def job() -> Iterator[tw.types.Job]:
    """A job that has three numbers to send to the topic, at two times, when somebody reads."""
    flow = tw.Dataflow("numbers")
    flow.input("numbers", int).map(lambda n: {"n": n}).publish(TOPIC)
    with tw.run(flow, engine="local") as running:
        with running.input("numbers") as numbers:
            numbers.send([1, 2])
            numbers.advance_to(1)
            numbers.send([3])
        yield running
        running.stop()


@pytest.mark.usefixtures("job")
@pytest.mark.parametrize(
    ("options", "lines"),
    [
        ([], ["0\t{'n': 1}", "0\t{'n': 2}", "1\t{'n': 3}"]),
        (["--epochs"], ["0\t{'n': 1}", "0\t{'n': 2}", "1\t{'n': 3}"]),
        (["--where", "n > 1"], ["0\t{'n': 2}", "1\t{'n': 3}"]),
        (["--where", "n>1", "--where", "n!=2", "--json"], ['{"time":1,"record":{"n":3}}']),
    ],
    ids=["all", "epochs", "where", "json"],
)
def test_tail_prints_what_comes(options: list[str], lines: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """A record a line, until the topic ends."""
    assert main(["tail", TOPIC, *options]) == 0
    assert capsys.readouterr().out.splitlines() == lines


def test_what_is_no_json_is_printed_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    """Times and records of any kind have a form."""
    flow = tw.Dataflow("sets")
    flow.input("sets").publish(TOPIC)
    with tw.run(flow, engine="local") as job:
        with job.input("sets") as sets:
            sets.send([1 + 2j])
        assert main(["tail", TOPIC, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"time": 0, "record": "(1+2j)"}


def test_topics_lists_them(job: tw.types.Job, capsys: pytest.CaptureFixture[str]) -> None:
    """With the job that publishes each, and how many partitions it has."""
    assert main(["topics"]) == 0
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.split() == ["TOPIC", "JOB", "PARTITIONS", "TIMES", "SCHEMA"]
    assert any(row.startswith(f"{TOPIC}  {job.name}  1 ") and row.endswith("  any") for row in rows)


def test_topics_can_be_watched(
    job: tw.types.Job, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line for each that comes, with what it has, or goes, with why; until Ctrl-C, for which the end stands here."""
    monkeypatch.setattr(tw, "watch_topics", lambda: watch_topics(timeout_s=0))
    assert main(["topics", "--watch"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert f"published\t{TOPIC}\t{job.name}\t1\tany" in lines


@pytest.mark.usefixtures("job")
def test_a_condition_that_fails_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    """One line that says what failed where, and exit code 1."""
    assert main(["tail", TOPIC, "--where", "m>1"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"tidewheel: topic '{TOPIC}', partition 0: ")
    assert (
        "where= failed for a batch at time 0: ValueError: there is no field 'm', but ['n'], for record {'n': 1}"
        in captured.err
    )


@pytest.mark.usefixtures("job")
def test_a_reader_that_has_had_enough_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """As when the output goes to `head`."""

    class Closed(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

        def fileno(self) -> int:
            raise io.UnsupportedOperation

    monkeypatch.setattr("sys.stdout", Closed())
    assert main(["tail", TOPIC]) == 0


@pytest.mark.parametrize("arguments", [[], ["tail"], ["tale"], ["tail", TOPIC, "--where", "n=1"]], ids=" ".join)
def test_what_cannot_be_meant_is_a_usage_error(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2, and how it is used."""
    with pytest.raises(SystemExit) as left:
        main(arguments)
    assert left.value.code == 2
    assert capsys.readouterr().err.startswith("usage: tidewheel")


def test_a_condition_that_is_none_says_where(capsys: pytest.CaptureFixture[str]) -> None:
    """Conditions are those of the gateway."""
    with pytest.raises(SystemExit):
        main(["tail", TOPIC, "--where", "record['n'] = 1"])
    assert "argument --where: \"record['n'] = 1\" is no condition: at character 13, '= 1'" in capsys.readouterr().err


def test_snapshots_are_listed_described_and_deleted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a cluster; a job that runs with the folder keeps its snapshots."""
    folder = SnapshotFolder(tmp_path / "job")
    with folder.claim("wordcount") as owner:
        for number in (1, 2):
            owner.commit(number, [folder.write(blob_name(owner.incarnation, number, "w0"), [b"state"])], {"workers": 3})
        assert main(["snapshots", folder.url, "--delete", "1"]) == 1
        assert "belongs to job 'wordcount'" in capsys.readouterr().err
    assert main(["snapshots", folder.url]) == 0
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.split() == ["SNAPSHOT", "AGE", "SIZE", "WORKERS", "STATE"]
    assert [row.split()[0] for row in rows] == ["2", "1"]
    assert rows[0].endswith("5 B   3        intact")
    assert main(["snapshots", folder.url, "2"]) == 0
    assert '  "workers": 3' in capsys.readouterr().out.splitlines()
    assert main(["snapshots", folder.url, "--delete", "2"]) == 0
    assert main(["snapshots", folder.url, "2"]) == 1
    assert capsys.readouterr().err == f"tidewheel: {folder.url} has no snapshot 2. It has: 1\n"
    assert main(["snapshots", folder.url, "--delete", "2"]) == 1
    assert "has no snapshot 2" in capsys.readouterr().err
    assert main(["snapshots", folder.url, "--delete", "1"]) == 0
    assert not (tmp_path / "job").exists()


@pytest.mark.parametrize("more", [[], ["3"], ["--delete", "3"]])
def test_a_folder_without_snapshots_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], more: list[str]
) -> None:
    """Its name may be misspelled. It is not made."""
    assert main(["snapshots", str(tmp_path / "nowhere"), *more]) == 1
    assert "nowhere has no snapshots: is it the folder of tw.Snapshots(...)?" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
