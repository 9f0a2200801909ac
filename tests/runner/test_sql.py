"""One SELECT over the inputs, and nothing else."""

import logging
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, NumberFormatException
from pyspark.sql import SparkSession

from longhaul.catalogue import _select_only, sql
from longhaul.catalogue._select_only import require_select, restricted_session
from longhaul.catalogue._sql_functions import FUNCTIONS, TABLE_FUNCTIONS
from longhaul.catalogue.sql import Params
from longhaul.core.errors import PermanentJobError
from tests.local.support import eventually
from tests.runner.sql_corpus import CALLS, HARMLESS, hostile
from tests.servers import serving


@pytest.fixture
def csv(tmp_path: Path) -> Path:
    file = tmp_path / "trips.csv"
    file.write_text("city,km\nOslo,3\nOslo,4\nRome,5\n")
    return file


@pytest.fixture
def calls() -> list[str]:
    """The paths that the server behind `url` was asked for."""
    return []


@pytest.fixture
def url(calls: list[str]) -> Iterator[str]:
    def answer(call: BaseHTTPRequestHandler) -> None:
        calls.append(call.path)
        call.send_error(404)

    with serving(answer) as served:
        yield f"{served}/x.dtd"


def test_a_query_over_an_input_is_written_in_the_asked_format(
    spark: SparkSession, make_job: Any, written: Any, csv: Path
) -> None:
    query = "SELECT city, sum(km) AS km FROM trips GROUP BY city"
    job = make_job({"trips": csv}, Params(query=query, format="json", partition_by=("city",)))

    sql.run(spark, job)

    assert sorted((row["city"], row["km"]) for row in written(job, format_="json")) == [
        ("Oslo", 7),
        ("Rome", 5),
    ]
    assert job.written[0].rows == 2


@pytest.fixture(scope="module")
def restricted(spark: SparkSession) -> SparkSession:
    """The session of a query, with the view that the corpus reads."""
    session = restricted_session(spark)
    trips = session.createDataFrame([("Oslo", 3), ("Oslo", 4), ("Rome", 5)], "city string, km int")
    trips.createOrReplaceTempView("trips")
    return session


@pytest.mark.parametrize("query", HARMLESS)
def test_ordinary_queries_pass_both_layers(restricted: SparkSession, query: str) -> None:
    require_select(restricted, query, ["trips"])
    restricted.sql(query)  # resolves every name


@pytest.mark.parametrize(("family", "query"), hostile())
def test_a_hostile_query_is_refused_before_it_is_resolved(
    restricted: SparkSession, family: str, query: str
) -> None:
    del family  # for the test's name
    with pytest.raises(PermanentJobError, match=r"^params\.query: "):
        require_select(restricted, query, ["trips"])


def test_a_query_that_would_take_minutes_to_look_through_is_refused(
    restricted: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_select_only, "_MOST_OBJECTS", 100)
    require_select(restricted, "SELECT km FROM trips WHERE km IN (1, 2, 3)", ["trips"])
    numbers = ", ".join(map(str, range(100)))
    with pytest.raises(PermanentJobError, match="too long or too deeply nested"):
        require_select(restricted, f"SELECT km FROM trips WHERE km IN ({numbers})", ["trips"])  # noqa: S608 - numbers


@pytest.mark.parametrize("call", CALLS)
def test_the_session_of_a_query_has_no_function_that_reaches_out(
    restricted: SparkSession, call: str
) -> None:
    with pytest.raises(AnalysisException, match="UNRESOLVED_ROUTINE"):
        restricted.sql(f"SELECT {call}")


def test_the_session_of_a_query_has_listed_functions_only(restricted: SparkSession) -> None:
    state = restricted._jsparkSession.sessionState()
    for registry, listed in (
        (state.functionRegistry(), FUNCTIONS),
        (state.tableFunctionRegistry(), TABLE_FUNCTIONS),
    ):
        text = registry.listFunction().mkString("\n")
        names = {name.removeprefix("system.builtin.") for name in text.split("\n")}
        assert names
        assert names <= listed


def test_functions_whose_library_refuses_this_jvm_are_not_listed(spark: SparkSession) -> None:
    """Called by a task, the error would end the JVM, and each attempt with it."""
    context: Any = spark.sparkContext
    with pytest.raises(Py4JJavaError) as refused:
        context._jvm.org.apache.datasketches.memory.WritableMemory.allocate(64)
    assert "Error" in str(refused.value.java_exception)
    kept = ("approx_top_k", "hll_", "kll_", "theta_", "tuple_")
    assert not {name for name in FUNCTIONS if name.startswith(kept)}


def test_the_session_that_was_given_keeps_its_functions(
    spark: SparkSession, restricted: SparkSession
) -> None:
    assert restricted is not spark
    assert spark.sql("SELECT reflect('java.lang.Math', 'abs', -1) AS x").first() == ("1",)


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("SELECT * FROM parquet.`/etc`", "unknown table 'parquet./etc'"),
        ("SELECT * FROM text.`/etc/passwd`", "unknown table"),
        ("SELECT * FROM IDENTIFIER('text.`/etc/passwd`')", "unknown table"),
        (
            "SELECT * FROM IDENTIFIER('text.`/etc/' || 'passwd`')",
            "IDENTIFIER",
        ),
        ("SELECT (SELECT max(value) FROM text.`/etc/passwd`)", "unknown table"),
        ("SELECT 1 WHERE 1 IN (SELECT value FROM text.`/etc/passwd`)", "unknown table"),
        ("WITH a AS (SELECT * FROM text.`/etc/passwd`) SELECT * FROM a", "unknown table"),
        (
            "WITH a AS (WITH b AS (SELECT * FROM csv.`/etc`) SELECT * FROM b) SELECT * FROM a",
            "unknown table",
        ),
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
        (
            "SELECT system.builtin.reflect('java.lang.System', 'getenv')",
            "function 'system.builtin.reflect'",
        ),
        ("SELECT IDENTIFIER('reflect')('java.lang.System', 'getenv')", "IDENTIFIER"),
        (
            "SELECT transform(array(1), x -> reflect('java.lang.System', 'getenv'))",
            "function 'reflect'",
        ),
        ("SELECT 1 FROM trips ORDER BY reflect('a', 'b')", "function 'reflect'"),
        (
            ("SELECT sum(km) FILTER (WHERE reflect('a', 'b') = '')"
            " OVER (PARTITION BY reflect('a', 'b')) FROM trips"),
            "'reflect'",
        ),
        ("VALUES (reflect('a', 'b'))", "function 'reflect'"),
        ("SELECT * FROM range(reflect('a', 'b'))", "function 'reflect'"),
        (
            "SELECT * FROM trips LATERAL VIEW explode(reflect('a', 'b')) t AS e",
            "function 'reflect'",
        ),
        ("SELECT * FROM trips LATERAL VIEW reflect('a', 'b') t AS e", "function 'reflect'"),
        ("FROM trips |> SELECT reflect('a', 'b')", "function 'reflect'"),
        (
            "SELECT from_xml('<a/>', 'a INT', map('rowValidationXSDPath', '/etc/passwd'))",
            "function 'from_xml'",
        ),
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
def test_a_query_that_reaches_beyond_the_inputs_is_refused(
    spark: SparkSession, query: str, why: str
) -> None:
    with pytest.raises(PermanentJobError, match=f"^params.query: .*({why})"):
        require_select(spark, query, ["trips"])


def test_text_stays_text(restricted: SparkSession) -> None:
    query = "SELECT '${env:PATH}${system:user.home}' AS x"
    require_select(restricted, query, [])

    (row,) = restricted.sql(query).collect()

    assert row["x"] == "${env:PATH}${system:user.home}"


@pytest.mark.parametrize(
    "query",
    [
        "FROM trips |> SET city = reflect('java.lang.System', 'getenv', 'HOME')",
        (
            "SELECT city, max(km) OVER w AS m FROM trips"
            " WINDOW w AS (ORDER BY reflect('java.lang.System', 'getenv', 'HOME'))"
        ),
        (
            "FROM trips |> SET city = reflect('org.apache.hadoop.fs.FileUtil', 'symLink',"
            " '{secret}', '{output}/link')"
        ),
        "FROM trips |> SET city = reflect('java.nio.file.Files', 'createFile', '{output}/made')",
        "FROM trips |> SET city = (SELECT max(value) FROM text.`{secret}`)",
        "SELECT xpath_string('<!DOCTYPE a SYSTEM \"{url}\"><a/>', '/a') AS city FROM trips",
    ],
)
def test_a_run_reaches_no_environment_file_or_network(
    spark: SparkSession,
    make_job: Any,
    csv: Path,
    tmp_path: Path,
    calls: list[str],
    url: str,
    query: str,
) -> None:
    secret, output = tmp_path / "secret.txt", tmp_path / "output"
    secret.write_text("secret")
    output.mkdir()
    query = query.format(secret=secret, output=output, url=url)

    with pytest.raises(PermanentJobError, match=r"params\.query"):
        sql.run(spark, make_job({"trips": csv}, Params(query=query)))

    assert calls == []
    assert list(output.iterdir()) == []


def test_xml_fetches_no_document_type_even_where_xpath_is_at_hand(
    spark: SparkSession, calls: list[str], url: str
) -> None:
    query = f"""SELECT xpath_string('<!DOCTYPE a SYSTEM "{url}"><a>1</a>', '/a')"""

    with pytest.raises(Exception, match=r"accessExternalDTD|Error loading expression"):
        spark.sql(query).collect()

    assert calls == []


@pytest.mark.parametrize(
    ("query", "partition_by", "why"),
    [
        ("SELECT 'secret' FORM trips FROM", (), "SQLSTATE"),
        ("SELECT 'secret', no_such_column FROM trips", (), "SQLSTATE"),
        ("SELECT city COLLATE nowhere AS city FROM trips", (), "SQLSTATE"),
        ("""SELECT variant_get(parse_json('1'), '$', 'udt') FROM trips""", (), "SQLSTATE"),
        ("SELECT 'secret' AS km, city, city FROM trips", (), "COLUMN_ALREADY_EXISTS"),
        ("SELECT city FROM trips", ("city",), "ALL_PARTITION_COLUMNS_NOT_ALLOWED"),
        ("SELECT * FROM trips", ("country",), "partition_by: .* country"),
    ],
)
def test_a_query_that_cannot_run_ends_the_job_at_once_and_is_not_quoted(
    spark: SparkSession,
    make_job: Any,
    csv: Path,
    query: str,
    partition_by: tuple[str, ...],
    why: str,
) -> None:
    job = make_job({"trips": csv}, Params(query=query, partition_by=partition_by))
    with pytest.raises(PermanentJobError, match=rf"params\.(query: .*)?{why}") as refused:
        sql.run(spark, job)
    assert "secret" not in str(refused.value)


def test_an_input_that_spark_cannot_make_a_view_of_ends_the_job_at_once(
    spark: SparkSession, make_job: Any, tmp_path: Path
) -> None:
    rows = tmp_path / "rows.json"
    rows.write_text('{"a": 1, "A": 2}\n')
    job = make_job({"rows": rows}, Params(query="SELECT * FROM rows"))
    with pytest.raises(PermanentJobError, match=r"^input 'rows': \[COLUMN_ALREADY_EXISTS"):
        sql.run(spark, job)


def test_inputs_that_differ_in_case_alone_are_refused(
    spark: SparkSession, make_job: Any, csv: Path
) -> None:
    job = make_job({"trips": csv, "Trips": csv}, Params(query="SELECT * FROM trips"))
    with pytest.raises(PermanentJobError, match=r"inputs 'trips' and 'Trips' .*: rename one"):
        sql.run(spark, job)


def test_the_log_of_a_failing_task_does_not_quote_the_query(
    spark: SparkSession, make_job: Any, csv: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    query = "SELECT CAST(concat('secret-of-mine', city) AS INT) AS n FROM trips"
    with pytest.raises(NumberFormatException):
        sql.run(spark, make_job({"trips": csv}, Params(query=query)))

    def said() -> list[str]:
        return [each.getMessage() for each in caplog.records if each.name == "spark"]

    eventually(lambda: "aborting job" in "\n".join(said()), "the JVM's last line about it")
    condition = "org.apache.spark.SparkNumberFormatException: [CAST_INVALID_INPUT]"
    assert any(line.endswith(f"(localhost executor driver): {condition}") for line in said())
    assert "secret-of-mine" not in "\n".join(said())


@pytest.mark.parametrize("name", ["trips.dat", "trips"])
def test_an_unknown_extension_asks_for_the_format(
    spark: SparkSession, make_job: Any, tmp_path: Path, name: str
) -> None:
    (tmp_path / name).write_text("city,km\nOslo,3\n")
    with pytest.raises(PermanentJobError, match=r"input 'trips': .*params\.input_formats"):
        sql.run(spark, make_job({"trips": tmp_path / name}, Params(query="SELECT * FROM trips")))
