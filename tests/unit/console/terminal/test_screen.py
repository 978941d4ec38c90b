"""The picture that fills a terminal."""

import io

import pytest
from rich.console import Console

from tests.kit.telemetry.documents import document, operator, views, worker
from tests.kit.terminal.watched_jobs import Listed, stuck_views
from tidewheel.console.terminal.choices import Choices
from tidewheel.console.terminal.screen import picture
from tidewheel.pubsub.subscribers.view import View


def drawn(view: View | None, *, jobs: int = 1, message: str = "", width: int = 100, height: int = 30) -> list[str]:
    """Return the lines of the picture."""
    console = Console(file=io.StringIO(), width=width, height=height, legacy_windows=False)
    listed = [Listed(f"job-{number}") for number in range(jobs)]
    console.print(picture(listed, view, message, Choices(), height))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


def crowded(operators: int, workers: int) -> View:
    """Return a view of a large job."""
    made = {str(number): operator(f"operator {number}") for number in range(operators)}
    [view] = views(document(operators=made, workers={str(number): worker() for number in range(workers)}))
    return view


@pytest.mark.parametrize(("width", "height"), [(100, 30), (60, 24), (200, 60)])
@pytest.mark.parametrize(("operators", "workers", "jobs"), [(3, 1, 1), (500, 64, 9)])
def test_it_fits_into_the_terminal(operators: int, workers: int, jobs: int, width: int, height: int) -> None:
    """A line more would scroll the first one away; what is left out is counted."""
    lines = drawn(crowded(operators, workers), jobs=jobs, width=width, height=height)
    assert len(lines) <= height
    assert max(map(len, lines)) <= width
    text = "\n".join(lines)
    assert "operator 0" in text
    assert ("more" in text) == (operators > 100)
    assert "q quit" in lines[-1]


def test_problems_are_marked_without_colour_too() -> None:
    """Not everybody, and not every terminal, sees colours."""
    _, view = stuck_views("words-1")
    lines = drawn(view)
    assert [line for line in lines if line.startswith("! keeps")]
    assert [line for line in lines if line.startswith("split")]
    assert any("operator 'keeps' holds" in line for line in lines)


def test_markup_of_rich_in_names_is_text() -> None:
    """A record's type may be called list[int]."""
    [view] = views(document(operators={"0": operator("[bold]map[/bold] list[int]")}))
    assert any("[bold]map[/bold] list[int]" in line for line in drawn(view))


def test_without_a_view_it_says_what_it_waits_for() -> None:
    """An empty screen would look broken."""
    lines = drawn(None, jobs=0, message="no job runs on the cluster")
    assert lines[0] == "no job runs on the cluster"
