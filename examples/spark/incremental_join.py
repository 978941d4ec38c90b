"""A live join of two Spark DataFrames whose rows change: the amount of each order beside the name of its customer.

Each row of a DataFrame says in column ``epoch`` when it comes, and in column ``diff`` whether it is added or removed.
"""

from typing import TYPE_CHECKING, Any

import tidewheel as tw
from examples.parts.program import by_epoch
from tidewheel.spark_bridge import from_spark, session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CUSTOMERS = [(0, 1, "ann", 1), (0, 2, "bob", 1), (1, 2, "bob", -1), (1, 2, "rob", 1)]
ORDERS = [(0, 1, 30, 1), (0, 2, 12, 1), (2, 1, 30, -1)]


def joined(flow: tw.Dataflow, customers: "DataFrame", orders: "DataFrame") -> tw.Stream[Any]:
    """Return the changes of pairs (name, amount), for customers (id, name) and orders (customer, amount)."""
    names = from_spark(flow, "customers", customers, time="epoch").as_collection(columns=["id", "name"], diff="diff")
    amounts = from_spark(flow, "orders", orders, time="epoch").as_collection(
        columns=["customer", "amount"], diff="diff"
    )
    return amounts.join(names, lambda customer, amount, name: (name, amount)).changes()


def main() -> None:
    flow = tw.Dataflow("orders")
    with session("orders") as spark:
        customers = spark.createDataFrame(CUSTOMERS, "epoch int, id int, name string, diff int")
        orders = spark.createDataFrame(ORDERS, "epoch int, customer int, amount int, diff int")
        joined(flow, customers, orders).capture("joined")
        with tw.run(flow, workers=2) as job:
            job.wait(timeout_s=120)
            for epoch, batches in by_epoch(job, "joined").items():
                print(f"epoch {epoch}:", *sorted(change for batch in batches for change in batch))


if __name__ == "__main__":
    main()
