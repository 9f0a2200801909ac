"""The orders of a day from a table of PostgreSQL, in parts, as Parquet.

The driver is a line of `requirements.txt`, and the password a secret of the stage.
"""

import os
from collections.abc import Iterator
from datetime import date, timedelta
from typing import Any

import pg8000.dbapi
from pyspark.sql import SparkSession

from longhaul.job import Job
from longhaul.job import Params as BaseParams

SCHEMA = "id BIGINT, customer STRING, ordered_at TIMESTAMP, total DECIMAL(12, 2)"
_AT_ONCE = 50_000
# Pages by key and not by OFFSET, which reads all rows before each page.
_PAGE = """
SELECT id, customer, ordered_at, total FROM orders
WHERE ordered_at >= %s AND ordered_at < %s AND id > %s ORDER BY id LIMIT %s
"""


class Params(BaseParams):
    day: date
    at_once: int = _AT_ONCE


def run(spark: SparkSession, job: Job[Params]) -> dict[str, int]:
    count = 0
    for rows in _pages(job.params):
        # A part is stored when it is written: an attempt after this one does not read it again.
        count += job.write(spark.createDataFrame(rows, SCHEMA), part=f"after-{rows[0][0]}")
        job.progress(f"{count:,} orders")
    if not count:
        job.write(spark.createDataFrame([], SCHEMA))
    return {"orders": count}


def _pages(params: Params) -> Iterator[list[Any]]:
    database = pg8000.dbapi.connect(
        host=os.environ["DB_HOST"],
        port=int(os.environ["DB_PORT"]),
        database=os.environ["DB_NAME"],
        user=os.environ["DB_USER"],
        password=os.environ["DB_PASSWORD"],
        timeout=60,
    )
    try:
        cursor, last, after = database.cursor(), 0, params.day + timedelta(days=1)
        while True:
            cursor.execute(_PAGE, (params.day, after, last, params.at_once))
            rows = [tuple(row) for row in cursor.fetchall()]
            if not rows:
                return
            yield rows
            last = rows[-1][0]
    finally:
        database.close()
