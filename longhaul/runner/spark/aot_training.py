"""Makes the AOT cache: `python -m longhaul.runner.spark.aot_training`.

The JVM does what jobs usually do, and writes the cache at its end.

That takes about a minute of one core, once for each installation. The build of the image runs it,
and the set-up of a checkout; on other machines the embedded AWS does, in the background. Of several
at once, one works and the others leave. A cache appears whole or not at all.
"""

import fcntl
import logging
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, Observation, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - the name that every PySpark text uses

from longhaul.runner.resources import Resources
from longhaul.runner.spark.gateway import Gateway
from longhaul.runner.spark.jvm import cache_folder, cache_path
from longhaul.runner.spark.progress import SparkWatch
from longhaul.runner.spark.session import build_session, session_options

_RESOURCES: Final = Resources(cores=2, memory_mib=2048)
# A minute on one core; many times that where another architecture is emulated.
_ASSEMBLY_LIMIT_S: Final = 1800
_ROWS: Final = 200
_BUILDING: Final = "building-"

logger = logging.getLogger(__name__)


class TrainingError(Exception):
    """No cache was made. Spark starts without one."""


def main() -> int:
    """Make the cache, unless it exists or is being made; returns the exit code."""
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    logger.setLevel(logging.INFO)  # without the JVM's page about what it writes
    # Unwinding ends the JVM.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        with _alone(cache_folder()) as alone:
            if not alone:
                logger.info("another process makes the AOT cache")
                return 0
            target = cache_path()
            if not target.is_file():
                make(target)
                logger.info("AOT cache made: %s, %d MB", target, target.stat().st_size // 1_000_000)
    except (OSError, TrainingError) as error:
        logger.info("no AOT cache: %s", error)
        return 1
    return 0


def make(target: Path) -> None:
    """Make the cache, put it in its place, and delete caches that fit no longer.

    Raises:
        TrainingError: the JVM wrote no cache.
    """
    for leftover in target.parent.glob(f"{_BUILDING}*"):
        shutil.rmtree(leftover)
    with tempfile.TemporaryDirectory(prefix=_BUILDING, dir=target.parent) as folder:
        made = Path(folder) / target.name
        logger.info("1 of 2: Spark does what jobs usually do")
        _train(made, Path(folder))
        with made.open("rb") as opened:
            os.fsync(opened.fileno())
        made.chmod(0o444)  # read-only: running JVMs map it
        made.replace(target)
    for other in target.parent.glob("*.aot"):
        if other != target:
            other.unlink()


@contextmanager
def _alone(folder: Path) -> Iterator[bool]:
    """Whether this process alone makes a cache in this folder, until the end of the block.

    The system frees the lock of a process that dies.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


def _train(made: Path, folder: Path) -> None:
    gateway = Gateway(folder, _RESOURCES, aot=[f"-XX:AOTCacheOutput={made}", "-Xlog:aot*=error"])
    try:
        gateway.attach()
        spark = build_session("training", session_options(_RESOURCES, folder))
        watch = SparkWatch(spark.sparkContext, period_s=0.5)
        watch.start()
        work(spark, folder)
        watch.stop()
        spark.stop()
        logger.info("2 of 2: the JVM writes the cache")
        gateway.retire(_ASSEMBLY_LIMIT_S)
    except subprocess.TimeoutExpired as error:
        raise TrainingError(f"the JVM did not write it within {_ASSEMBLY_LIMIT_S} s") from error
    finally:
        gateway.stop()
    if not made.is_file():
        raise TrainingError(f"the JVM wrote none: {gateway.last_words()}")


def work(spark: SparkSession, folder: Path) -> None:
    """On a few rows: read, check, cast, join, aggregate, rank, count, write, in every format."""
    raw, output = folder / "raw", folder / "output"
    raw.mkdir()
    lines = [
        f"{n},{'NA' if n % 9 == 0 else n % 7},k{n % 5},2013-01-{n % 28 + 1:02}"
        for n in range(_ROWS)
    ]
    (raw / "a.csv").write_text("\n".join(["id,value,name,day", *lines]))
    texts = (
        spark.read.schema("id string, value string, name string, day string, line string")
        .option("header", value=True)
        .option("nullValue", "NA")
        .option("columnNameOfCorruptRecord", "line")
        .csv(raw.as_uri())
        .select("*", F.col("_metadata.file_name").alias("file"))
    )
    typed = texts.select(
        F.col("id").try_cast("int").alias("id"),
        F.col("value").try_cast("double").alias("value"),
        F.concat_ws("-", F.col("name"), F.lit("x")).alias("name"),
        F.col("day").try_cast("date").alias("day"),
        F.month(F.col("day").try_cast("date")).alias("month"),
    ).persist()
    for format_ in ("parquet", "json", "csv", "orc"):
        _write(typed.hint("rebalance", "month"), format_, output / format_)
        spark.read.format(format_).load((output / format_).as_uri()).count()
    typed.createOrReplaceTempView("typed")
    names = spark.createDataFrame([(f"k{n}-x", n) for n in range(5)], "name string, rank int")
    joined = typed.join(names, on="name", how="left").join(
        names.hint("merge"), on="name", how="inner"
    )
    by_day = Window.partitionBy("day").orderBy(F.desc("value"))
    ranked = joined.withColumn("place", F.row_number().over(by_day)).where(F.col("place") == 1)
    _write(
        ranked.groupBy("day").agg(F.avg("value").alias("mean"), F.count("*").alias("n")),
        "parquet",
        output / "days",
    )
    spark.sql(
        "SELECT name, count(*) AS n, sum(value) AS s FROM typed GROUP BY name HAVING n > 1"
        " ORDER BY n"
    ).collect()
    spark.range(_ROWS).selectExpr("id % 7 AS k", "id").groupBy("k").agg(
        F.sum("id"), F.countDistinct("id")
    ).collect()
    spark.range(4).select(F.udf(lambda n: n + 1, "long")("id")).collect()
    typed.unpersist()


def _write(df: DataFrame, format_: str, folder: Path) -> None:
    counted = Observation()
    writer = df.observe(counted, F.count(F.lit(1)).alias("rows")).write.format(format_)
    (writer.partitionBy("month") if "month" in df.columns else writer).save(folder.as_uri())
    counted.get["rows"]


if __name__ == "__main__":
    sys.exit(main())
