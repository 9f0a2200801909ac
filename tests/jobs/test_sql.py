"""One SELECT over the inputs, and nothing else."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from jobs.catalogue import sql
from jobs.catalogue._select_only import require_select
from jobs.catalogue.sql import Params
from longhaul.domain.errors import PermanentJobError


@pytest.fixture
def csv(tmp_path: Path) -> Path:
    file = tmp_path / "trips.csv"
    file.write_text("city,km\nOslo,3\nOslo,4\nRome,5\n")
    return file


def test_a_query_over_an_input_is_written_in_the_asked_format(
    spark: SparkSession, make_job: Any, written: Any, csv: Path
) -> None:
    query = "SELECT city, sum(km) AS km FROM trips GROUP BY city"
    job = make_job({"trips": csv}, Params(query=query, format="json", partition_by=("city",)))

    sql.run(spark, job)

    assert sorted((row["city"], row["km"]) for row in written(job, format_="json")) == [("Oslo", 7), ("Rome", 5)]
    assert job.written[0].rows == 2


@pytest.mark.parametrize(
    "query",
    [
        "WITH far AS (SELECT * FROM trips WHERE km > 3) SELECT f.city FROM far f JOIN trips t ON f.city = t.city",
        "SELECT city FROM TRIPS WHERE km > (SELECT avg(km) FROM trips) AND EXISTS (SELECT 1 FROM trips)",
        "SELECT city, row_number() OVER (PARTITION BY city ORDER BY km) FROM trips LIMIT 2 OFFSET 1",
        "SELECT * FROM trips UNION ALL SELECT 'x', 1 EXCEPT SELECT 'y', 2 ORDER BY 1",
        "SELECT id, e FROM range(3) LATERAL VIEW explode(array(1, 2)) t AS e",
        "SELECT transform(array(1), x -> x + 1), CASE WHEN km > 1 THEN current_date() END FROM trips",
        "SELECT * FROM trips PIVOT (sum(km) FOR city IN ('Oslo'))",
        "SELECT city, count(*) FROM trips GROUP BY CUBE (city) HAVING count(*) > 1",
        "SELECT * FROM VALUES (1, 2) AS t(a, b), LATERAL (SELECT a + b AS c)",
        "FROM trips |> WHERE km > 3 |> SELECT city",
    ],
)
def test_ordinary_queries_pass(spark: SparkSession, csv: Path, query: str) -> None:
    spark.read.csv(str(csv), header=True, inferSchema=True).createOrReplaceTempView("trips")
    require_select(spark, query, ["trips"])
    spark.sql(query).collect()


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("SELECT * FROM parquet.`/etc`", "unknown table 'parquet./etc'"),
        ("SELECT * FROM text.`/etc/passwd`", "unknown table"),
        ("SELECT * FROM IDENTIFIER('text.`/etc/passwd`')", "unknown table"),
        ("SELECT * FROM IDENTIFIER('text.`/etc/' || 'passwd`')", "UnresolvedIdentifier|unknown table"),
        ("SELECT (SELECT max(value) FROM text.`/etc/passwd`)", "unknown table"),
        ("SELECT 1 WHERE 1 IN (SELECT value FROM text.`/etc/passwd`)", "unknown table"),
        ("WITH a AS (SELECT * FROM text.`/etc/passwd`) SELECT * FROM a", "unknown table"),
        ("WITH a AS (WITH b AS (SELECT * FROM csv.`/etc`) SELECT * FROM b) SELECT * FROM a", "unknown table"),
        ("SELECT * FROM trips, LATERAL (SELECT * FROM json.`/etc`)", "unknown table"),
        ("SELECT * FROM trips WITH (path = '/etc/passwd')", "unknown table"),
        ("SELECT * FROM elsewhere", "unknown table 'elsewhere'; known: trips"),
        ("SELECT * FROM default.trips", "unknown table"),
        ("TABLE elsewhere", "unknown table"),
        ("SELECT * FROM trips VERSION AS OF 1", "RelationTimeTravel"),
        ("SELECT * FROM STREAM trips", "NamedStreamingRelation"),
        ("SELECT java_method('java.lang.System', 'getenv')", "function 'java_method'"),
        ("SELECT reflect('java.lang.System', 'exit', 1)", "function 'reflect'"),
        ("SELECT `Try_Reflect`('java.lang.System', 'getenv')", "function 'Try_Reflect'"),
        ("SELECT builtin.reflect('java.lang.System', 'getenv')", "function 'builtin.reflect'"),
        ("SELECT system.builtin.reflect('java.lang.System', 'getenv')", "function 'system.builtin.reflect'"),
        ("SELECT IDENTIFIER('reflect')('java.lang.System', 'getenv')", "IDENTIFIER"),
        ("SELECT transform(array(1), x -> reflect('java.lang.System', 'getenv'))", "function 'reflect'"),
        ("SELECT 1 FROM trips ORDER BY reflect('a', 'b')", "function 'reflect'"),
        ("SELECT sum(km) FILTER (WHERE reflect('a', 'b') = '') OVER (PARTITION BY reflect('a', 'b')) FROM trips", "'reflect'"),
        ("VALUES (reflect('a', 'b'))", "function 'reflect'"),
        ("SELECT * FROM range(reflect('a', 'b'))", "function 'reflect'"),
        ("SELECT * FROM trips LATERAL VIEW explode(reflect('a', 'b')) t AS e", "function 'reflect'"),
        ("SELECT * FROM trips LATERAL VIEW reflect('a', 'b') t AS e", "function 'reflect'"),
        ("FROM trips |> SELECT reflect('a', 'b')", "function 'reflect'"),
        ("SELECT from_xml('<a/>', 'a INT', map('rowValidationXSDPath', '/etc/passwd'))", "function 'from_xml'"),
        ("SELECT * FROM read_files('/etc')", "function 'read_files'"),
        ("SELECT * FROM python_worker_logs()", "function 'python_worker_logs'"),
        ("SELECT TRANSFORM(km) USING 'cat /etc/passwd' AS (a) FROM trips", "ScriptTransformation"),
        ("SELECT 1; SELECT 2", "PARSE_SYNTAX_ERROR"),
        ("BEGIN SELECT 1; END", "CompoundBody"),
        ("EXECUTE IMMEDIATE 'SELECT 1'", "UnresolvedExecuteImmediate"),
        ("SET spark.sql.runSQLOnFiles = true", "SetCommand"),
        ("ADD JAR '/tmp/x.jar'", "AddJar"),
        ("CREATE TEMPORARY FUNCTION f AS 'x.Y'", "CreateFunction"),
        ("CREATE TABLE t AS SELECT 1", "CreateTable"),
        ("CREATE VIEW t AS SELECT 1", "CreateView"),
        ("INSERT INTO trips SELECT 1, 2", "InsertIntoStatement"),
        ("INSERT OVERWRITE DIRECTORY '/tmp/x' USING csv SELECT 1", "InsertIntoDir"),
        ("FROM trips INSERT OVERWRITE DIRECTORY '/tmp/x' SELECT *", "InsertIntoDir"),
        ("SHOW TABLES", "ShowTables"),
        ("DESCRIBE trips", "Describe"),
        ("EXPLAIN SELECT 1", "Explain"),
        ("DROP VIEW trips", "Drop"),
        ("CACHE TABLE trips", "Cache"),
        ("DELETE FROM trips", "Delete"),
        ("", "PARSE"),
    ],
)  # fmt: skip
def test_whatever_reaches_beyond_the_inputs_is_refused(spark: SparkSession, query: str, why: str) -> None:
    with pytest.raises(PermanentJobError, match=f"^params.query: .*({why})"):
        require_select(spark, query, ["trips"])


@pytest.mark.parametrize(
    "query",
    [
        "SELECT '${env:PATH}${system:user.home}' AS x",
        """SELECT coalesce(xpath_string('<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><a>&x;</a>', '/a'), '') AS x""",
    ],
)
def test_text_stays_text(spark: SparkSession, query: str) -> None:
    require_select(spark, query, [])

    (row,) = spark.sql(query).collect()

    assert row["x"] in ("${env:PATH}${system:user.home}", "")


def test_an_error_does_not_quote_the_query(spark: SparkSession, make_job: Any, csv: Path) -> None:
    for query in ("SELECT 'secret' FORM trips FROM", "SELECT 'secret', no_such_column FROM trips"):
        job = make_job({f"trips{len(query)}": csv}, Params(query=query.replace("trips", f"trips{len(query)}")))
        with pytest.raises(PermanentJobError, match=r"params\.query") as refused:
            sql.run(spark, job)
        assert "secret" not in str(refused.value)


@pytest.mark.parametrize("name", ["trips.dat", "trips"])
def test_an_unknown_extension_asks_for_the_format(
    spark: SparkSession, make_job: Any, tmp_path: Path, name: str
) -> None:
    (tmp_path / name).write_text("city,km\nOslo,3\n")
    with pytest.raises(PermanentJobError, match=r"input 'trips': .*params\.input_formats"):
        sql.run(spark, make_job({"trips": tmp_path / name}, Params(query="SELECT * FROM trips")))


def test_a_partition_column_must_be_in_the_result(spark: SparkSession, make_job: Any, csv: Path) -> None:
    with pytest.raises(PermanentJobError, match=r"params\.partition_by: .* country"):
        sql.run(spark, make_job({"trips": csv}, Params(query="SELECT * FROM trips", partition_by=("country",))))
