"""What a job leaves in the JVM of a warm environment, and what the next one sees of it."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from longhaul.engines.aws_lambda import runner
from longhaul.engines.aws_lambda.runner import ExecutionEnvironment, JobEnded
from longhaul.settings import VARIABLE, runtime_settings
from tests.builders import settings
from tests.runner.test_lambda_runner import EVENT, Context, stop_adopting

pytestmark = pytest.mark.slow  # starts eight JVMs

# Takes the place of the runner: a session as a job gets it, and the job is the code in DO.
JOB = """
import json, os, sys, tempfile
from pathlib import Path
from longhaul.runner.spark.kept import KeptGateway, KeptSpark
from longhaul.runner.stopping import Stop
from longhaul.runner.resources import Resources

task, memory, folder, pid, output, *used = sys.argv[1:]
scratch = Path(tempfile.mkdtemp())
gateway = KeptGateway(Path(folder), int(pid), int(output), is_used=bool(used))
stop = Stop()
job = KeptSpark(gateway, "job", Resources(1, 1024), scratch, stop, watch_every_s=0.5)
job.await_session(0)
spark = job._session.result()
java = spark.sparkContext._jsc
seen = {"jvm": int(pid), "used": bool(used)}
exec(os.environ["DO"])
job.close()
Path(os.environ["SEEN"]).write_text(json.dumps(seen, default=str))
sys.exit(1 if stop.requested else 0)
"""
LEAVE = """
import atexit, subprocess, threading, time
import longhaul.catalogue.probe as module
module.left = 1
os.environ["LEFT"] = "1"
threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
frame = spark.range(100).selectExpr("id % 7 AS k", "id")
frame.createOrReplaceTempView("left_view")
frame.createOrReplaceGlobalTempView("left_global")
spark.sql("CREATE DATABASE left_database")
frame.write.saveAsTable("left_database.left_table")
spark.udf.register("left_udf", lambda n: n + 1, "long")
spark.conf.set("spark.sql.shuffle.partitions", 99)
spark.conf.set("spark.sql.ansi.enabled", "false")
java.hadoopConfiguration().set("left.setting", "1")
java.hadoopConfiguration().set("io.file.buffer.size", "77")
spark.sparkContext.setLogLevel("ERROR")
spark.sparkContext.setLocalProperty("left.property", "1")
frame.cache().count()
java.sc().range(0, 50, 1, 1).cache().count()
frame.groupBy("k").count().collect()
Path(os.environ["TMPDIR"], "left_file").write_text("1")
tmpdir = spark._jvm.java.lang.System.getProperty("java.io.tmpdir")
Path(tmpdir, "left_file").write_text("1")
"""
LOOK = """
import threading
import longhaul.catalogue.probe as module
hadoop = java.hadoopConfiguration()
seen |= {
    "module": hasattr(module, "left"),
    "environment": "LEFT" in os.environ,
    "tables": [each.name for each in spark.catalog.listTables()],
    "global views": [each.name for each in spark.catalog.listTables("global_temp")],
    "databases": [each.name for each in spark.catalog.listDatabases()],
    "udf": spark.catalog.functionExists("left_udf"),
    "partitions": spark.conf.get("spark.sql.shuffle.partitions"),
    "ansi": spark.conf.get("spark.sql.ansi.enabled"),
    "hadoop": [hadoop.get("left.setting"), hadoop.get("io.file.buffer.size")],
    "local files": hadoop.get("fs.defaultFS"),
    "log level": str(spark._jvm.org.apache.logging.log4j.LogManager.getRootLogger().getLevel()),
    "property": spark.sparkContext.getLocalProperty("left.property"),
    "persistent": java.getPersistentRDDs().size(),
    "files": [each for each in os.listdir(os.environ["TMPDIR"]) if "left" in each],
    "files of the JVM": [each.name for each in Path(folder).rglob("left*")],
    "default session": spark.getActiveSession() is spark,
}
frame = spark.range(100).selectExpr("id % 7 AS k", "id")
seen["cached"] = frame.is_cached or "InMemory" in frame._jdf.queryExecution().toString()
seen["counts"] = sorted(row["count"] for row in frame.groupBy("k").count().collect())
frame.write.parquet(str(scratch / "output"))
"""


def start(command: list[str], **options: Any) -> "subprocess.Popen[bytes]":
    return subprocess.Popen([sys.executable, "-c", JOB, *command[3:]], **options)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., dict[str, Any]]]:
    """Runs code as a job in one environment, and returns what it saw."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setenv("SEEN", str(tmp_path / "seen"))
    monkeypatch.setenv(VARIABLE, settings().model_dump_json())
    runtime_settings.cache_clear()
    runner.adopt_orphans()
    environment = ExecutionEnvironment(_popen=start)

    def job(code: str) -> dict[str, Any]:
        os.environ["DO"] = code
        environment.run(EVENT, Context())
        seen: dict[str, Any] = json.loads((tmp_path / "seen").read_text())
        return seen | {"kept": environment.jvm is not None}

    monkeypatch.setenv("DO", "")
    yield job
    environment.end()
    runtime_settings.cache_clear()
    stop_adopting()


def test_the_next_job_in_the_same_jvm_sees_nothing_of_the_one_before(
    run: Callable[..., dict[str, Any]],
) -> None:
    new = run(LOOK)
    left = run(LEAVE)
    after = run(LOOK)

    assert (new["used"], left["used"], after["used"]) == (False, True, True)
    assert new["jvm"] == left["jvm"] == after["jvm"]
    assert after | {"used": False} == new
    # What a job sees of a new environment.
    assert (new["tables"], new["databases"], new["cached"]) == ([], ["default"], False)
    assert (new["persistent"], new["files"], new["property"]) == (0, [], None)
    assert (new["module"], new["environment"], new["udf"]) == (False, False, False)
    assert new["hadoop"] == [None, "65536"]
    assert new["log level"] == "WARN"


@pytest.mark.parametrize(
    "change",
    [
        "spark._jvm.java.lang.System.setProperty('left', '1')",
        "java.sc().conf().set('left', '1')",
        "spark.sparkContext.addFile(__import__('longhaul').job.__file__)",
        "spark.sparkContext.setCheckpointDir(str(scratch))",
        "java_util.TimeZone.setDefault(java_util.TimeZone.getTimeZone('Asia/Tokyo'))",
        "java_util.Locale.setDefault(java_util.Locale.forLanguageTag('tr-TR'))",
        "users.setLoginUser(users.createRemoteUser('mallory'))",
        "log4j.core.config.Configurator.setLevel('org.apache.spark.sql', log4j.Level.DEBUG)",
        "spark.readStream.format('rate').load().writeStream.format('noop').start()",
        # The Python worker stays for the next task, with what it has imported.
        "spark.range(3).rdd.map(lambda row: row).count()",
    ],
)
def test_a_jvm_in_which_a_job_changed_what_cannot_be_undone_is_not_used_again(
    run: Callable[..., dict[str, Any]], change: str
) -> None:
    names = """
import longhaul.job
java_util = spark._jvm.java.util
users = spark._jvm.org.apache.hadoop.security.UserGroupInformation
log4j = spark._jvm.org.apache.logging.log4j
"""
    assert not run(f"{names}\n{change}")["kept"]


def test_the_jvm_of_a_job_that_failed_is_not_used_again(
    run: Callable[..., dict[str, Any]],
) -> None:
    first = run("")
    with pytest.raises(JobEnded, match="exit code 1"):
        run("raise ValueError('no')")
    last = run("")
    assert (first["kept"], last["used"], last["jvm"] == first["jvm"]) == (True, False, False)
