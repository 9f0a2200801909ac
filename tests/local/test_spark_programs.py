"""A real driver with its executors."""

import os
import stat
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from longhaul.local.processes import ProcessGroup, wait_until
from longhaul.local.spark_programs import MASTER, spark_command, spark_environment

pytestmark = pytest.mark.slow

# Says on what addresses its processes listen, and with what commands they run.
_PROGRAM = """
import psutil
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
print("SUM", spark.sparkContext.parallelize(range(10), 2).sum())
family = [psutil.Process().parent(), *psutil.Process().parent().children(recursive=True)]
pids = {each.pid for each in family}
print("EXECUTORS", sum("CoarseGrainedExecutorBackend" in " ".join(p.cmdline()) for p in family))
print("COMMANDS", [each.cmdline() for each in family])
listening = [each for each in psutil.net_connections("tcp") if each.status == "LISTEN"]
heard = {each.laddr.ip for each in listening if each.pid in pids}
print("LISTENS", {each.removeprefix("::ffff:") for each in heard})
spark.stop()
"""


def secret_in(folder: Path) -> str:
    words = (folder / "conf" / "spark-defaults.conf").read_text().split()
    return words[words.index("spark.authenticate.secret") + 1]


def running_in(session: int) -> list[int]:
    running = psutil.process_iter(["status"])
    alive = [each.pid for each in running if each.info["status"] != psutil.STATUS_ZOMBIE]
    return [pid for pid in alive if session_of(pid) == session]


def session_of(pid: int) -> int | None:
    with suppress(ProcessLookupError):
        return os.getsid(pid)
    return None


def test_a_driver_and_two_executors_share_a_secret_and_serve_this_machine_alone(
    tmp_path: Path,
) -> None:
    program, log, own = tmp_path / "program.py", tmp_path / "log", tmp_path / "own"
    program.write_text(_PROGRAM)
    words = ("--conf", f"spark.master={MASTER}", "--conf", "spark.executor.memory=512m")
    environment = spark_environment(own)
    driver = ProcessGroup(
        spark_command("org.apache.spark.deploy.SparkSubmit", *words, str(program), heap_mib=512),
        cwd=tmp_path,
        environment=environment | {"PYTHONPATH": ":".join(sys.path)},
        log=log,
    )
    assert driver.wait() == 0, log.read_text()[-3000:]

    said = dict(line.split(" ", 1) for line in log.read_text().splitlines() if " " in line)
    assert (said["SUM"], said["EXECUTORS"], said["LISTENS"]) == ("45", "2", "{'127.0.0.1'}")
    secret = secret_in(own)
    assert len(secret) >= 43  # 256 bits in base64
    assert secret not in log.read_text()
    file = own / "conf" / "spark-defaults.conf"
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    spark_environment(tmp_path / "other")
    assert secret_in(tmp_path / "other") != secret
    assert wait_until(lambda: not running_in(driver.pid), 30)
