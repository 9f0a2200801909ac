"""A Parquet file's footer names classes for its columns: none of them gets to run code."""

import base64
import json
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - PySpark's usual name
from pyspark.sql.types import StringType, UserDefinedType

from longhaul.catalogue import sql
from longhaul.job import PermanentJobError
from longhaul.testing import MakeJob

JVM_TYPE = {"type": "udt", "class": "java.lang.Thread", "pyClass": None, "sqlType": "string"}


class _Opens:
    """Runs code of its choice where it is unpickled."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def __reduce__(self) -> Any:
        return (open, (str(self._file), "w"))


def _schema(type_: dict[str, Any]) -> str:
    field = {"name": "text", "type": type_, "nullable": True, "metadata": {}}
    return json.dumps({"type": "struct", "fields": [field]})


def _python_type(name: str, pickled: bytes = b"") -> dict[str, Any]:
    return {
        "type": "udt",
        "pyClass": name,
        "serializedClass": base64.b64encode(pickled).decode(),
        "sqlType": "string",
    }


def _forged(spark: SparkSession, folder: Path, schema: str) -> str:
    """A Parquet file of one text, whose footer claims this schema."""
    text = F.lit("a").alias("text", metadata={"comment": "-" * 2000})
    spark.range(1).select(text).coalesce(1).write.parquet(folder.as_uri())
    (file,) = folder.glob("part-*")
    content = file.read_bytes()
    start = content.index(b'{"type":"struct"')
    end = content.index(b'--"}}]}', start) + len(b'--"}}]}')
    file.write_bytes(content[:start] + schema.encode().ljust(end - start) + content[end:])
    (folder / f".{file.name}.crc").unlink()
    return folder.as_uri()


def test_the_jvm_loads_no_class_that_a_schema_names(spark: SparkSession) -> None:
    jvm: Any = spark._jvm

    with pytest.raises(Py4JJavaError, match="UDT_CLASS_LOADING_DISABLED"):
        jvm.org.apache.spark.sql.types.DataType.fromJson(_schema(JVM_TYPE))


def test_a_class_of_the_jvm_in_a_footer_leaves_a_plain_column(
    spark: SparkSession, tmp_path: Path
) -> None:
    frame = spark.read.parquet(_forged(spark, tmp_path / "forged", _schema(JVM_TYPE)))

    assert [tuple(row) for row in frame.collect()] == [("a",)]
    assert frame.schema.simpleString() == "struct<text:string>"


def test_a_pickled_class_in_a_footer_is_not_unpickled(spark: SparkSession, tmp_path: Path) -> None:
    made = tmp_path / "made"
    schema = _schema(_python_type("json.Nothing", pickle.dumps(_Opens(made))))
    frame = spark.read.parquet(_forged(spark, tmp_path / "forged", schema))

    with pytest.raises(ValueError, match=r"json\.Nothing"):
        _ = frame.columns

    assert not made.exists()


def _as_sql(spark: SparkSession, _: MakeJob, folder: Path) -> DataFrame:
    return sql.read(spark, "rows", folder.as_uri(), "parquet", {})[0]


def _as_any_job(spark: SparkSession, make_job: MakeJob, folder: Path) -> DataFrame:
    return make_job({"rows": folder}).read("rows", spark.read.format("parquet"))


@pytest.mark.parametrize("read", [_as_sql, _as_any_job])
@pytest.mark.parametrize("where", ["column", "field"])
def test_a_default_in_a_footer_is_not_evaluated(
    spark: SparkSession,
    tmp_path: Path,
    make_job: MakeJob,
    where: str,
    read: Callable[[SparkSession, MakeJob, Path], DataFrame],
) -> None:
    folder = tmp_path / "rows"
    folder.mkdir()

    def column(name: str, type_: Any, metadata: dict[str, str]) -> dict[str, Any]:
        return {"name": name, "type": type_, "nullable": True, "metadata": metadata}

    def write(file: str, *columns: dict[str, Any], **values: pa.Array) -> None:
        schema = {"type": "struct", "fields": [column("id", "long", {}), *columns]}
        spoken = {
            "org.apache.spark.version": "4.3.0",
            "org.apache.spark.sql.parquet.row.metadata": json.dumps(schema),
        }
        rows = pa.table({"id": [1], **values}).replace_schema_metadata(spoken)
        pq.write_table(rows, folder / file)

    default = {"EXISTS_DEFAULT": "xpath_string('<a>7</a>', '/a')", "CURRENT_DEFAULT": "'x'"}
    if where == "column":
        write("a.parquet", column("x", "string", default), x=pa.array(["a"]))
        write("b.parquet")
    else:
        inner = {"type": "struct", "fields": [column("y", "string", default)]}
        write("a.parquet", column("x", inner, {}), x=pa.array([{"y": "a"}]))
        write("b.parquet", column("x", inner, {}), x=pa.array([{"z": "a"}]))

    frame = read(spark, make_job, folder)

    assert "7" not in str(frame.collect())
    assert all("EXISTS_DEFAULT" not in field.json() for field in frame.schema.fields)


def test_a_job_reads_with_the_options_of_its_reader(
    spark: SparkSession, tmp_path: Path, make_job: MakeJob
) -> None:
    (tmp_path / "rows.csv").write_text("a;b\n1;x\n")
    job = make_job({"rows": tmp_path / "rows.csv"})

    frame = job.read("rows", spark.read.format("csv").options(header=True, sep=";"))

    assert [row.asDict() for row in frame.collect()] == [{"a": "1", "b": "x"}]
    with pytest.raises(PermanentJobError, match="needs an input 'trips'; given: rows"):
        job.read("trips", spark.read.format("csv"))


def test_a_column_keeps_its_collation(spark: SparkSession, tmp_path: Path) -> None:
    written = spark.sql(
        "SELECT x COLLATE UTF8_LCASE AS x, struct(x COLLATE UNICODE AS y) AS z"
        " FROM VALUES ('a'), ('A') AS t(x)"
    )
    written.write.parquet((tmp_path / "rows").as_uri())

    frame, _ = sql.read(spark, "rows", (tmp_path / "rows").as_uri(), "parquet", {})

    assert frame.schema == spark.read.parquet((tmp_path / "rows").as_uri()).schema
    assert frame.where("x = 'a'").count() == 2


def test_a_schema_imports_no_module(spark: SparkSession, tmp_path: Path) -> None:
    module = "this"
    assert module not in sys.modules
    schema = _schema(_python_type(f"{module}.Anything"))
    frame = spark.read.parquet(_forged(spark, tmp_path / "forged", schema))

    with pytest.raises(ValueError, match=r"this\.Anything"):
        _ = frame.schema

    assert module not in sys.modules


@pytest.mark.parametrize("library", ["ml", "mllib"])
@pytest.mark.parametrize("kind", ["Vector", "Matrix"])
def test_the_jvm_knows_the_types_of_mllib(spark: SparkSession, library: str, kind: str) -> None:
    jvm: Any = spark._jvm
    name = f"org.apache.spark.{library}.linalg.{kind}UDT"
    type_ = {**JVM_TYPE, "class": name}

    found = jvm.org.apache.spark.sql.types.DataType.fromJson(_schema(type_))

    assert found.apply("text").dataType().getClass().getName() == name


class Celsius(UserDefinedType):
    """A type of a job's own."""

    @classmethod
    def sqlType(cls) -> StringType:  # noqa: N802 - PySpark's name
        return StringType()

    @classmethod
    def module(cls) -> str:
        return __name__


def test_a_type_that_the_job_has_imported_is_read_as_such(
    spark: SparkSession, tmp_path: Path
) -> None:
    schema = _schema(_python_type(f"{__name__}.Celsius"))
    frame = spark.read.parquet(_forged(spark, tmp_path / "forged", schema))

    (field,) = frame.schema.fields

    assert field.dataType == Celsius()
