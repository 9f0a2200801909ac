"""From large audio files (input `audio`, WAV) to a row for each, and a short preview of each.

An example of data that is no table: Spark spreads the files over its workers, and plain Python
reads and writes them, a block at a time. The files are published by the same commit as the rows.
"""

import hashlib
import wave
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

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


class Facts(NamedTuple):
    file: str
    bytes: int
    sha256: str
    channels: int | None = None
    sample_rate: int | None = None
    seconds: float | None = None
    problem: str | None = None


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


def describe(file: Path, previews: Path, preview_s: int) -> Facts:
    """The checksum and the header of a file, which leaves its preview in the folder."""
    with file.open("rb") as opened:
        sha256 = hashlib.file_digest(opened, "sha256").hexdigest()
    facts = Facts(file.name.partition("-")[2], file.stat().st_size, sha256)
    try:
        with wave.open(str(file)) as audio:
            facts = facts._replace(
                channels=audio.getnchannels(),
                sample_rate=audio.getframerate(),
                seconds=audio.getnframes() / max(1, audio.getframerate()),
            )
            # Hidden files are not published: a task that fails here leaves no half preview.
            # Two files may be equal: each has its own unfinished one.
            unfinished = previews / f".{file.name}"
            with wave.open(str(unfinished), "wb") as preview:
                preview.setparams(audio.getparams())
                preview.writeframes(audio.readframes(preview_s * audio.getframerate()))
    except (wave.Error, EOFError) as error:
        return facts._replace(problem=str(error) or "the file ends too soon")
    unfinished.replace(previews / f"{sha256}.wav")
    return facts
