"""The job against a real PostgreSQL."""

from datetime import date
from decimal import Decimal
from typing import Any

import orders
import pg8000.dbapi
import pytest

DAY = date(2026, 11, 27)


@pytest.fixture
def filled(connection: Any) -> Any:
    cursor = connection.cursor()
    cursor.execute(
        "CREATE TABLE orders (id bigint PRIMARY KEY, customer text, ordered_at timestamp, "
        "total numeric(12, 2))"
    )
    for n in range(1, 6):
        cursor.execute(
            "INSERT INTO orders VALUES (%s, %s, %s, %s)",
            (n, f"customer {n}", f"2026-11-27 {n:02}:00", Decimal("1.10") * n),
        )
    cursor.execute("INSERT INTO orders VALUES (6, 'too late', '2026-11-28 00:00', 1)")
    connection.commit()
    yield connection
    connection.cursor().execute("DROP TABLE orders")
    connection.commit()


@pytest.mark.usefixtures("filled")
def test_the_orders_of_a_day_are_written_in_parts(
    spark: Any, make_job: Any, written: Any, database: dict[str, str]
) -> None:
    job = make_job({}, orders.Params(day=DAY, at_once=2), environment=database)

    assert orders.run(spark, job) == {"orders": 5}

    rows = sorted(written(job), key=lambda row: row["id"])
    assert [row["id"] for row in rows] == [1, 2, 3, 4, 5]
    assert rows[4]["total"] == Decimal("5.50")
    assert len(job.written) == 3


@pytest.mark.usefixtures("filled")
def test_a_day_without_orders_is_an_empty_output(
    spark: Any, make_job: Any, written: Any, database: dict[str, str]
) -> None:
    job = make_job({}, orders.Params(day=date(2026, 1, 1)), environment=database)

    assert orders.run(spark, job) == {"orders": 0}
    assert written(job) == []


def test_a_wrong_password_fails_the_job(
    spark: Any, make_job: Any, database: dict[str, str]
) -> None:
    environment = {**database, "DB_PASSWORD": "a wrong one"}
    job = make_job({}, orders.Params(day=DAY), environment=environment)

    with pytest.raises(pg8000.dbapi.DatabaseError, match="28P01"):
        orders.run(spark, job)
