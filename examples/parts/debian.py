"""The dependency graph of Debian in Spark: packages as numbers, and the epoch in which each edge arrives."""

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

DATA = Path(__file__).parents[1] / "data" / "debian-bookworm-dependencies.parquet"


def numbered(spark: SparkSession) -> tuple[DataFrame, DataFrame]:
    """Return the packages with their numbers, and the edges between numbers with their epochs."""
    spark.read.parquet(str(DATA)).createOrReplaceTempView("edges")
    packages = spark.sql("""
        SELECT name, row_number() OVER (ORDER BY name) - 1 AS node
        FROM (SELECT source AS name FROM edges UNION SELECT target FROM edges)""").cache()
    packages.createOrReplaceTempView("packages")
    edges = spark.sql("""
        WITH epochs AS (SELECT section, (row_number() OVER (ORDER BY section) - 1) DIV 8 AS epoch
                        FROM (SELECT DISTINCT section FROM edges))
        SELECT epoch, a.node AS source, b.node AS target
        FROM edges JOIN epochs USING (section)
        JOIN packages a ON a.name = source JOIN packages b ON b.name = target""").cache()
    return packages, edges
