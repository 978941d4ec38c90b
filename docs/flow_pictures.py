"""Writes the pictures of dataflows in docs/pictures/, as a notebook shows them. Run by `make docs`."""

from collections.abc import Iterator
from pathlib import Path

import tidewheel as tw

FOLDER = Path(__file__).with_name("pictures")


def pictures() -> Iterator[tuple[Path, str]]:
    """Yield each file with the SVG that belongs in it."""
    for name, flow in (("collatz", collatz()),):
        html = flow._repr_html_()  # what notebooks call
        yield FOLDER / f"{name}.svg", html[html.index("<svg") : html.rindex("</svg>")] + "</svg>\n"


def collatz() -> tw.Dataflow:
    """Return the loop of docs/concepts/loops.md."""
    flow = tw.Dataflow("collatz")

    def body(walks: tw.Stream[tuple[int, int]]) -> tuple[tw.Stream[tuple[int, int]], tw.Stream[tuple[int, int]]]:
        stepped = walks.map(lambda walk: (walk[0], walk[1] // 2 if walk[1] % 2 == 0 else 3 * walk[1] + 1))
        return stepped.filter(lambda walk: walk[1] != 1), stepped.filter(lambda walk: walk[1] == 1)

    flow.input("numbers", int).map(lambda number: (number, number)).iterate(body).capture("lengths")
    return flow


if __name__ == "__main__":
    for file, picture in pictures():
        file.write_text(picture, encoding="utf-8")
