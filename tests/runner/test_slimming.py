"""The image without what no job uses."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from longhaul.runner.slimming import UnknownJarsError, slim
from longhaul.runner.spark.jvm import spark_home

REPOSITORY = Path(__file__).parents[2]
# Jars are packed already, so this is nearly what a task pulls. Spark comes with 462 MB of them.
MOST_JARS_MB = 255
_LIMIT_S = 900


def linked(source: str, target: str) -> None:
    """A copy that shares the file, where the file systems let it."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """The packages of this environment that the image has and that are slimmed, as links."""
    folder = tmp_path / "packages"
    shutil.copytree(spark_home(), folder / "pyspark", copy_function=linked)
    arrow = Path(pa.__file__).parent
    shutil.copytree(arrow, folder / "pyarrow", copy_function=linked)
    return folder


def sizes(jars: Path) -> dict[str, int]:
    return {jar.name: jar.stat().st_size for jar in jars.glob("*.jar")}


def test_half_of_the_jars_go_and_the_installed_ones_stay_as_they_are(packages: Path) -> None:
    installed = sizes(spark_home() / "jars")
    _, size_bytes = slim(packages)
    left = sizes(packages / "pyspark" / "jars")
    assert sum(left.values()) < MOST_JARS_MB * 1e6
    assert size_bytes > 200e6
    assert sizes(spark_home() / "jars") == installed
    assert not (packages / "pyspark" / "examples").exists()
    for needed in ("spark-mllib_", "breeze_", "orc-core-", "hive-storage-api-", "scala-reflect-"):
        assert any(name.startswith(needed) for name in left), needed


def test_footers_of_tables_are_read_with_what_is_left_of_arrow(
    packages: Path, tmp_path: Path
) -> None:
    slim(packages)
    pq.write_table(pa.table({"n": [1, 2]}), tmp_path / "file.parquet")
    reading = f"""
from pathlib import Path
import pyarrow
from longhaul.runner.io.table_files import columns_of, describe
columns = columns_of({{"fields": [{{"name": "n", "type": "long"}}]}})
[(_, entry)] = describe([Path({str(tmp_path / "file.parquet")!r})], columns, (), "data/")
print(entry.rows, pyarrow.__file__)
"""
    done = subprocess.run(
        [sys.executable, "-c", reading],
        capture_output=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(packages), str(REPOSITORY)))},
        text=True,
        timeout=_LIMIT_S,
        check=False,
    )
    assert done.stdout.split() == ["2", str(packages / "pyarrow" / "__init__.py")], done.stderr


def test_another_version_of_spark_is_noticed(packages: Path) -> None:
    next((packages / "pyspark" / "jars").glob("rocksdbjni-*.jar")).unlink()
    with pytest.raises(UnknownJarsError, match=r"no file is named pyspark/jars/rocksdbjni-\*\.jar"):
        slim(packages)
    # Nothing was deleted before that.
    assert next((packages / "pyspark" / "jars").glob("spark-connect_*.jar")).exists()


@pytest.mark.slow  # some minutes of Spark
def test_sql_mllib_and_every_format_run_on_what_is_left(packages: Path, tmp_path: Path) -> None:
    slim(packages)
    folder = tmp_path / "work"
    folder.mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "tests.runner.everyday_spark", str(folder)],
        capture_output=True,
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(packages), str(REPOSITORY)))},
        text=True,
        timeout=_LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-6000:]}"
    assert done.stdout.splitlines()[-1] == f"done with {packages / 'pyspark'}"
    assert "mllib" in done.stdout.splitlines()
