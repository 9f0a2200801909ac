"""`wav_previews` without Spark: a checksum and a preview of each large audio file, by processes.

For work that is no query. The figures of both are in the demo's README.
"""

import multiprocessing
import os
from functools import partial
from pathlib import Path

import pyarrow as pa
from _wav import Facts, describe
from pydantic import Field

from longhaul.job import Job
from longhaul.job import Params as BaseParams

SCHEMA = pa.schema(
    [
        ("file", pa.string()),
        ("bytes", pa.int64()),
        ("sha256", pa.string()),
        ("channels", pa.int32()),
        ("sample_rate", pa.int32()),
        ("seconds", pa.float64()),
        ("problem", pa.string()),
    ]
)


class Params(BaseParams):
    preview_s: int = Field(default=10, ge=1, le=600)
    """Length of the previews, which are named by the checksum of their file."""


def run(job: Job[Params]) -> None:
    previews, facts = job.files("previews"), list[Facts]()
    files = sorted(path for path in Path(job.input("audio")).rglob("*") if path.is_file())
    work = partial(describe, previews=previews, preview_s=job.params.preview_s)
    # Not a fork: the runner has threads, and a lock that one of them holds would stay locked.
    with multiprocessing.get_context("spawn").Pool(os.cpu_count()) as pool:
        for each in pool.imap(work, files):
            facts.append(each)
            job.progress("describing files", done=len(facts), total=len(files))
    rows = [fact._asdict() for fact in facts]
    job.write(pa.Table.from_pylist(rows, schema=SCHEMA), format="json")
