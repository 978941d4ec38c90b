"""Writes the pictures of docs/collections.md into docs/pictures/. Run by `make docs`."""

from collections import Counter
from collections.abc import Iterator
from itertools import chain, pairwise
from pathlib import Path
from typing import TypeAlias

FOLDER = Path(__file__).with_name("pictures")

Labels: TypeAlias = Counter[tuple[str, str]]
"""Records (person, label), each with its count."""

STYLE = """<style>
text { font: 13px system-ui, sans-serif; fill: #222; }
.small { font-size: 12px; fill: #666; }
.line { stroke: #444; stroke-width: 1.4; fill: none; }
.head { fill: #444; }
.box { fill: #fff; stroke: #555; }
.input { fill: #dff3e4; stroke: #555; }
.output { fill: #dde9fb; stroke: #555; }
.marked { fill: #f6d98b; stroke: #555; }
@media (prefers-color-scheme: dark) {
  text { fill: #e4e4e4; } .small { fill: #aaa; }
  .line { stroke: #bbb; } .head { fill: #bbb; }
  .box { fill: #2b2d3a; stroke: #999; } .input { fill: #1f4a35; stroke: #999; } .output { fill: #24406b; stroke: #999; }
  .marked { fill: #6b551c; stroke: #999; }
}
</style>
"""


def pictures() -> Iterator[tuple[Path, str]]:
    """Yield each file with the SVG that belongs in it."""
    yield FOLDER / "collection-changes.svg", changes()
    yield FOLDER / "collection-loop.svg", loop()
    yield FOLDER / "collection-meeting.svg", meeting()
    yield FOLDER / "collection-arrangement.svg", arrangement()


# ---------------------------------------------------------------------- the pictures


def changes() -> str:
    """Return the epochs of a small collection: what changes, and what it has in it afterwards."""
    epochs = (
        (("+1  ann, tea", "+1  bob, oil"), ("ann, tea", "bob, oil")),
        (("-1  ann, tea", "+1  ann, oil"), ("ann, oil", "bob, oil")),
        (("-1  bob, oil",), ("ann, oil",)),
    )
    parts = [text(8, 67, "changes", small=True, start=True), text(8, 169, "collection", small=True, start=True)]
    for epoch, (changed, kept) in enumerate(epochs):
        left = 90 + 160 * epoch
        parts.append(text(left + 60, 20, f"epoch {epoch}", small=True))
        parts += [box(left, 34 + 26 * row, 120, 26, said, "marked") for row, said in enumerate(changed)]
        parts += [box(left, 138 + 26 * row, 120, 26, said, "output") for row, said in enumerate(kept)]
        parts.append(arrow(left + 60, 34 + 26 * len(changed), left + 60, 138))
        if epoch:
            parts.append(arrow(left - 40, 164, left, 164))
    return picture(560, 205, "The collection at an epoch is the sum of all changes up to it", parts)


def loop() -> str:
    """Return how many records change in each round of each epoch, while labels spread along friendships."""
    people = ("ann", "bob", "cat", "dan", "eve", "fay")
    chained = list(pairwise(people))
    cut = [pair for pair in chained if pair != ("cat", "dan")]
    epochs = {"six in a chain": chained, "cat and dan part": cut, "ann meets fay": [*cut, ("ann", "fay")]}
    rounds = 7
    states = [rounds_of(people, friends, rounds) for friends in epochs.values()]
    parts = [text(155 + 62 * number, 20, f"round {number}", small=True) for number in range(rounds)]
    for epoch, what in enumerate(epochs):
        top = 34 + 62 * epoch
        parts.append(text(8, top + 20, f"epoch {epoch}", start=True))
        parts.append(text(8, top + 38, what, small=True, start=True))
        for number in range(rounds):
            count = changed_at(states, epoch, number)
            parts.append(box(130 + 62 * number, top, 50, 46, str(count), "marked" if count else "box"))
    return picture(560, 215, "How many records change in each round of each epoch", parts)


def meeting() -> str:
    """Return four times as a square: two changes meet at the least time that is at or after both."""
    parts = []
    said = {(0, 1): "a record changes", (1, 0): "another one changes", (1, 1): "the key is looked at again"}
    kinds = {(0, 1): "marked", (1, 0): "marked", (1, 1): "output"}
    for epoch, number in ((0, 0), (1, 0), (0, 1), (1, 1)):
        left, top = 40 + 250 * epoch, 120 - 90 * number
        parts.append(box(left, top, 130, 34, f"({epoch + 3}, {number + 1})", kinds.get((epoch, number), "box")))
        below = 50 if number == 0 else -8
        parts.append(text(left + 65, top + below, said.get((epoch, number), "nothing"), small=True))
    parts += [arrow(170, 47, 290, 47), arrow(170, 137, 290, 137)]
    parts += [arrow(105, 120, 105, 64), arrow(355, 120, 355, 64)]
    return picture(460, 185, "A key is looked at again where changes at two times meet", parts)


def arrangement() -> str:
    """Return an arrangement: sorted batches, each much smaller than the one before, and its readers."""
    parts = []
    left = 20
    for width, said, kind in ((230, "epochs 0 to 40", "box"), (110, "41 to 47", "box"), (60, "48", "box")):
        parts.append(box(left, 40, width, 36, said, kind))
        left += width + 14
    parts += [box(left + 56, 40, 60, 36, "49", "input"), arrow(left + 56, 58, left, 58)]
    parts.append(text(left + 86, 26, "a new batch", small=True))
    said = "sorted by key, never changed, merged when two are of like size"
    parts.append(text(20, 26, said, small=True, start=True))
    for number, reader in enumerate(("join or reduction", "snapshot")):
        parts.append(box(60 + 200 * number, 130, 130, 32, reader, "output"))
        parts.append(arrow(125 + 200 * number, 84, 125 + 200 * number, 130))
    parts.append(line(20, 84, 448, 84))
    return picture(600, 180, "One arrangement, and all who read it", parts)


# ---------------------------------------------------------------------- labels that spread


def rounds_of(people: tuple[str, ...], friends: list[tuple[str, str]], rounds: int) -> list[Labels]:
    """Return the labels in each round: each person takes the first name among its own label and those of friends."""
    both = [*friends, *(pair[::-1] for pair in friends)]
    labels = {person: person for person in people}
    found = []
    for _ in range(rounds):
        found.append(Counter(labels.items()))
        offers = [(there, labels[here]) for here, there in both]
        labels = {person: min([labels[person], *(label for at, label in offers if at == person)]) for person in people}
    return found


def changed_at(states: list[list[Labels]], epoch: int, number: int) -> int:
    """Return how many records differ from what the times before lead to expect."""

    def at(epoch: int, number: int) -> Labels:
        return states[epoch][number] if epoch >= 0 and number >= 0 else Counter()

    here, before = at(epoch, number), at(epoch - 1, number)
    last, last_before = at(epoch, number - 1), at(epoch - 1, number - 1)
    records = set(chain(here, before, last, last_before))
    return sum(here[one] - before[one] - last[one] + last_before[one] != 0 for one in records)


# ---------------------------------------------------------------------- SVG


def picture(width: int, height: int, title: str, parts: list[str]) -> str:
    """Return a picture made of parts."""
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">'
    return "\n".join([head, f"<title>{title}</title>", STYLE + "\n".join(parts), "</svg>", ""])


def text(x: float, y: float, said: str, *, small: bool = False, start: bool = False) -> str:
    """Return a text in the middle of ``x``, or one that starts there."""
    anchor, look = "start" if start else "middle", ' class="small"' if small else ""
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}"{look}>{said}</text>'


def box(x: float, y: float, width: float, height: float, said: str, kind: str) -> str:
    """Return a box with a text in it."""
    shape = f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="4" class="{kind}"/>'
    return f"{shape}\n{text(x + width / 2, y + height / 2 + 4.5, said)}"


def line(x: float, y: float, to_x: float, to_y: float) -> str:
    """Return a line."""
    return f'<path d="M{x} {y}L{to_x} {to_y}" class="line"/>'


def arrow(x: float, y: float, to_x: float, to_y: float) -> str:
    """Return an arrow that is upright or level."""
    length = abs(to_x - x) + abs(to_y - y)
    along, down = (to_x - x) / length, (to_y - y) / length
    foot_x, foot_y = to_x - 8 * along, to_y - 8 * down
    sides = [(foot_x + 4 * down, foot_y + 4 * along), (foot_x - 4 * down, foot_y - 4 * along)]
    head = "".join(f"L{side_x} {side_y}" for side_x, side_y in sides)
    return f'{line(x, y, foot_x, foot_y)}\n<path d="M{to_x} {to_y}{head}z" class="head"/>'


if __name__ == "__main__":
    for file, drawn in pictures():
        file.write_text(drawn, encoding="utf-8")
