"""Print each epoch's changes of the topic ``components`` as they come, from a process that knows nothing of the job."""

import pyarrow.compute as pc

import tidewheel as tw


def main() -> None:
    """Subscribe and print until the topic ends."""
    with tw.subscribe("components", timeout_s=60) as subscription:
        for epoch in subscription.epochs():
            table = epoch.to_arrow()
            components = pc.count_distinct(table["component"]).as_py()
            reached, farthest = pc.count(table["hops"]).as_py(), pc.max(table["hops"]).as_py()
            hops = f", {reached:,} of them within {farthest} hops" if reached else ""
            print(
                f"  [subscriber] epoch {epoch.time}: {table.num_rows:6,} packages changed, now in {components:,} "
                f"components{hops}",
                flush=True,
            )


if __name__ == "__main__":
    main()
