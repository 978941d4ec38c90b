"""Counts words while text keeps coming: after each part, the totals so far of the words in it.

The text is Python's own help, one part for each of its topics: ``help("if")`` shows one of them. Words are counted for
each part where they are read, counts travel to the worker that owns the word, and totals are kept there.
"""

import argparse
import re
from pydoc_data.topics import topics

import tidewheel as tw


def totals(lines: tw.Stream[str]) -> tw.Stream[tuple[str, int]]:
    """Return, for each epoch, each word in its lines with how often it has come up to then."""
    words = lines.flat_map(lambda line: re.findall(r"[a-z]+", line.lower()))
    return words.count().accumulate(
        key=lambda counted: counted[0], start=int, add=lambda total, counted: total + counted[1]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=2, help="how many workers; 2 by default")
    parser.add_argument("--engine", choices=("ray", "local"), default="ray", help="on Ray, or in this process")
    chosen = parser.parse_args()
    flow = tw.Dataflow("word count")
    totals(flow.input("lines")).capture("totals").top_k(3, order=lambda total: total[1]).capture("frequent")
    with tw.run(flow, workers=chosen.workers, engine=chosen.engine) as job:
        with job.input("lines") as lines:
            for epoch, text in enumerate(topics.values(), start=1):
                lines.send(text.splitlines())
                lines.advance_to(epoch)
        job.wait(timeout_s=120)
        latest: dict[str, int] = {}
        for found in sorted(job.captured("totals"), key=lambda found: found.time):
            latest |= dict(found.batch)
        frequent = {found.time: found.batch for found in job.captured("frequent")}
    for epoch, topic in list(enumerate(topics))[::10]:
        print(f"after topic {epoch:2}, {topic:>14}: {', '.join(f'{word} {total}' for word, total in frequent[epoch])}")
    print(f"{sum(latest.values()):,} words, {len(latest):,} different ones; the most frequent are")
    for word, total in sorted(latest.items(), key=lambda item: -item[1])[:10]:
        print(f"{total:6,} {word}")


if __name__ == "__main__":
    main()
