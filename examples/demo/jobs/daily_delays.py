"""From clean flights, all inputs of the request, to one row per day and carrier.

A row has the number of flights, those cancelled, the mean and the 95th percentile of the departure
delay. Each month is a part of the output: an attempt after a kill goes on with the months that are
left.
"""

from functools import reduce

from flights_clean import SCHEMA
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that every PySpark text uses

from longhaul.job import Job, Params, PermanentJobError


def run(spark: SparkSession, job: Job[Params]) -> None:
    if not job.inputs:
        raise PermanentJobError("the job needs at least one input: outputs of flights_clean")
    # One by one: Spark refuses to discover the partition folders of several roots at once.
    flights = reduce(
        DataFrame.unionByName,
        (spark.read.schema(SCHEMA).parquet(job.input(name)) for name in sorted(job.inputs)),
    )
    rows = 0
    for year, month in months(flights):
        name = f"{year}-{month:02}"
        job.progress(f"aggregating {name}")
        of_month = flights.where((F.col("year") == year) & (F.col("month") == month))
        rows += job.write(daily_delays(of_month).coalesce(1), part=name)
    job.progress(f"{rows} days and carriers")


def months(flights: DataFrame) -> list[tuple[int, int]]:
    """Year and month of all flights, in order.

    Raises:
        PermanentJobError: there are none.
    """
    found = sorted((row[0], row[1]) for row in flights.select("year", "month").distinct().collect())
    if not found:
        raise PermanentJobError("the inputs hold no flights")
    return found


def daily_delays(flights: DataFrame) -> DataFrame:
    """Delays in minutes, negative for early departures.

    A flight without departure time was cancelled and has no delay. If all were cancelled, both
    delays are null. The percentile is exact and interpolates linearly between ranks, as NumPy does
    by default.
    """
    return (
        flights.groupBy(F.make_date("year", "month", "day").alias("day"), "carrier")
        .agg(
            F.count(F.lit(1)).alias("flights"),
            F.count_if(F.col("dep_time").isNull()).alias("cancelled"),
            F.avg("dep_delay").alias("mean_dep_delay"),
            F.percentile("dep_delay", 0.95).alias("p95_dep_delay"),
        )
        .select("day", "carrier", "flights", "cancelled", "mean_dep_delay", "p95_dep_delay")
        .orderBy("day", "carrier")
    )
