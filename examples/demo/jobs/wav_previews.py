"""From large audio files (input `audio`, WAV) to a row for each, and a short preview of each.

An example of data that is no table: Spark spreads the files over its workers, and plain Python
reads and writes them, a block at a time. The files are published by the same commit as the rows.
`wav_previews_plain` is the same without Spark.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from _wav import Facts, describe
from pydantic import Field
from pyspark.sql import Row, SparkSession

from longhaul.job import Job
from longhaul.job import Params as BaseParams

SCHEMA: Final = (
    "file string, bytes long, sha256 string, channels int, sample_rate int, seconds double,"
    " problem string"
)


class Params(BaseParams):
    preview_s: int = Field(default=10, ge=1, le=600)
    """Length of the previews, which are named by the checksum of their file."""


def run(spark: SparkSession, job: Job[Params]) -> None:
    previews, preview_s = job.files("previews"), job.params.preview_s

    def describe_all(rows: Iterable[Row]) -> Iterator[Facts]:
        for row in rows:
            # Not percent-encoded, unlike a URI: `#`, `?` and `%41` are part of a name.
            yield describe(Path(row.path.removeprefix("file:")), previews, preview_s)

    # The column `content` is left out: it would hold a whole file in memory, of 2 GB at most.
    audio = spark.read.format("binaryFile").load(job.input("audio")).select("path")
    facts = spark.createDataFrame(audio.rdd.mapPartitions(describe_all), SCHEMA)
    rows = job.write(facts, format="json")
    job.progress(f"{rows} files")
