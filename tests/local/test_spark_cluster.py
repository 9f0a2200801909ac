"""A real cluster, and programs that try to get in."""

import stat
import urllib.request
from collections.abc import Iterator
from http.client import HTTPException
from pathlib import Path
from signal import SIGKILL
from urllib.parse import urlsplit

import psutil
import pytest

from longhaul.local.processes import ProcessGroup
from longhaul.local.spark_cluster import SparkCluster
from longhaul.local.spark_programs import spark_command
from tests.local.support import eventually

pytestmark = pytest.mark.slow

_PROGRAM = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
print("SUM", spark.sparkContext.parallelize(range(10), 2).sum())
spark.stop()
"""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[SparkCluster]:
    made = SparkCluster(tmp_path / "spark")
    made.start()
    yield made
    made.close()


def submit(cluster: SparkCluster, folder: Path, **environment: str) -> tuple[ProcessGroup, Path]:
    """Start a small job on the cluster. Returns its driver and the driver's log."""
    program = folder / "program.py"
    program.write_text(_PROGRAM)
    confs = {
        "spark.master": cluster.start(),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.executor.memory": "512m",
    }
    words = [word for name, value in confs.items() for word in ("--conf", f"{name}={value}")]
    log = folder / "driver.log"
    process = ProcessGroup(
        spark_command("org.apache.spark.deploy.SparkSubmit", *words, str(program), heap_mib=512),
        cwd=folder,
        environment=cluster.environment() | environment,
        log=log,
    )
    return process, log


def test_program_that_knows_the_secret_runs_on_the_cluster(
    cluster: SparkCluster, tmp_path: Path
) -> None:
    driver, log = submit(cluster, tmp_path)
    assert (driver.wait(), "SUM 45" in log.read_text()) == (0, True), log.read_text()[-3000:]


@pytest.mark.parametrize(
    "configuration",
    [
        "",
        "spark.authenticate true\nspark.authenticate.secret guess\n",
        (
            "spark.authenticate true\nspark.authenticate.secret guess\n"
            "spark.network.crypto.enabled true\n"
        ),
    ],
    ids=["no secret", "a guess", "a guess in the right handshake"],
)
def test_program_that_does_not_know_the_secret_is_not_registered(
    cluster: SparkCluster, tmp_path: Path, configuration: str
) -> None:
    (tmp_path / "spark-defaults.conf").write_text(configuration)
    driver, log = submit(cluster, tmp_path, SPARK_CONF_DIR=str(tmp_path))
    try:
        eventually(
            lambda: "Failed to connect to master" in log.read_text(),
            "the master refuses",
            120,
            story=log.read_text,
        )
        assert "Registering app" not in (tmp_path / "spark" / "master.log").read_text()
    finally:
        driver.send(SIGKILL)
        driver.wait()


def test_the_secret_is_in_a_private_file_and_on_no_command_line(
    cluster: SparkCluster, tmp_path: Path
) -> None:
    file = Path(cluster.environment()["SPARK_CONF_DIR"]) / "spark-defaults.conf"
    (secret,) = (
        line.split()[1]
        for line in file.read_text().splitlines()
        if line.startswith("spark.authenticate.secret")
    )
    assert len(secret) >= 43  # 256 bits in base64
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    mine = psutil.Process().children(recursive=True)
    assert len(mine) >= 3
    assert not any(secret in word for process in mine for word in process.cmdline())
    for log in tmp_path.rglob("*.log"):
        assert secret not in log.read_text()

    other = SparkCluster(tmp_path / "other")
    other.start()
    other.close()
    assert secret not in (tmp_path / "other" / "conf" / "spark-defaults.conf").read_text()


def test_the_master_serves_this_machine_alone_and_ends_no_job_for_a_web_page(
    cluster: SparkCluster,
) -> None:
    master = urlsplit(cluster.start()).port
    # The page comes up after the port of the master.
    text = eventually(lambda: _page_of_the_master(master), "the master's page is served")
    assert "kill" not in text
    assert {ip.removeprefix("::ffff:") for ip, _ in _listening()} == {"127.0.0.1"}


def _listening() -> list[tuple[str, int]]:
    """Addresses on which the processes of the cluster listen."""
    cluster = {each.pid for each in psutil.Process().children(recursive=True)}
    return [
        (each.laddr.ip, each.laddr.port)
        for each in psutil.net_connections("tcp")
        if each.pid in cluster and each.status == psutil.CONN_LISTEN
    ]


def _page_of_the_master(master: int | None) -> str | None:
    for _, port in _listening():
        if port == master:
            continue
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=20) as response:
                text = str(response.read().decode(errors="replace"))
        except (OSError, HTTPException):  # another service, or not yet ready
            continue
        if "Spark Master at" in text:
            return text
    return None
