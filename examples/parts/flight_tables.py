"""Streams of flights in Spark SQL: joined with the names of airlines, destinations and planes, and counted by them."""

from pathlib import Path

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import expr

from examples.parts import nyc_flights
from examples.parts.flight_hours import Flight

FLIGHT = ", ".join(f"{name} {'string' if kind is str else 'long'}" for name, kind in Flight.__annotations__.items())


def named(spark: SparkSession, flights: DataFrame, folder: Path) -> DataFrame:
    """Join flights with the tables of airlines, airports and planes, which are put into a folder."""
    folder.mkdir()
    for name in ("airlines", "airports", "planes"):
        pq.write_table(nyc_flights.read(name), folder / f"{name}.parquet")
        spark.read.parquet(f"{folder}/{name}.parquet").createOrReplaceTempView(name)
    flights.createOrReplaceTempView("flights")
    return spark.sql("""
        SELECT flights.*, airlines.name AS airline, coalesce(airports.name, dest) AS destination,
               coalesce(manufacturer || ' ' || model, 'not known') AS model
        FROM flights JOIN airlines USING (carrier)
        LEFT JOIN airports ON dest = faa LEFT JOIN planes ON plane = tailnum""")


def counts(flights: DataFrame, by: str, late: int) -> DataFrame:
    """Count, by a column, the flights that were so many minutes late, were expected to be, and both."""
    was, was_expected = f"left_late >= {late}", f"expected >= {late}"
    counted = flights.groupBy(by).agg(
        expr("count(*)").alias("flights"),
        expr(f"count_if({was})").alias("late"),
        expr(f"count_if({was_expected})").alias("expected"),
        expr(f"count_if({was} AND {was_expected})").alias("as_expected"),
    )
    return counted.orderBy("late", by, ascending=[False, True])
