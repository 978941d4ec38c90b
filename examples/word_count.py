"""Counts words while text keeps coming: after each part, the totals so far of the words in it.

The text is Python's own help, one part for each of its topics: ``help("if")`` shows one of them. Words are counted for
each part where they are read, counts travel to the worker that owns the word, and totals are kept there.
"""

import re
from pydoc_data.topics import topics

import tidewheel as tw
from program import by_epoch, options


def totals(lines: tw.Stream[str]) -> tw.Stream[tuple[str, int]]:
    """Return, for each epoch, each word in its lines with how often it has come up to then."""
    words = lines.flat_map(lambda line: re.findall(r"[a-z]+", line.lower()))
    return words.count().accumulate(
        key=lambda counted: counted[0], start=int, add=lambda total, counted: total + counted[1]
    )


def main() -> None:
    chosen = options(__doc__)
    flow = tw.Dataflow("word count")
    totals(flow.input("lines")).capture("totals").top_k(3, order=lambda total: total[1]).capture("frequent")
    with tw.run(flow, workers=chosen.workers, engine=chosen.engine) as job:
        with job.input("lines") as lines:
            for epoch, text in enumerate(topics.values(), start=1):
                lines.send(text.splitlines())
                lines.advance_to(epoch)
        job.wait(timeout=120)
        latest: dict[str, int] = {}
        for batches in by_epoch(job, "totals").values():
            latest |= dict(total for batch in batches for total in batch)
        for (epoch, (frequent,)), topic in list(zip(by_epoch(job, "frequent").items(), topics, strict=True))[::10]:
            print(f"after topic {epoch:2}, {topic:>14}: {', '.join(f'{word} {total}' for word, total in frequent)}")
    print(f"{sum(latest.values()):,} words, {len(latest):,} different ones; the most frequent are")
    for word, total in sorted(latest.items(), key=lambda item: -item[1])[:10]:
        print(f"{total:6,} {word}")


if __name__ == "__main__":
    main()
