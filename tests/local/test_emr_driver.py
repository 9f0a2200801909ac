"""Job runs as processes, with a line of Python in the place of spark-submit.

tests/e2e/test_emr_serverless.py has a real cluster.
"""

import io
import json
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from longhaul.local import emr_driver
from longhaul.local.emr_driver import EmrDriver, JobRunEnd, JobRunSpec
from longhaul.local.host import Host
from longhaul.local.log_shipper import LogShipper
from tests.local.support import ACCOUNT, REGION, Observer, eventually
from tests.patience import DEADLINE_S

ARN = "arn:aws:emr-serverless:us-east-1:123456789012:/applications/a/jobruns/r"
MASTER = "local-cluster[2,1,768]"
FAILED = "Job failed, please check complete logs in configured logging destination. ExitCode: 65."
DESCRIBE = (
    "import json, os, pathlib, sys; "
    "files = sorted(map(str, pathlib.Path().rglob('*'))); "
    "print(json.dumps({'argv': sys.argv[1:], 'env': dict(os.environ), 'files': files}))"
)


class Assets:
    """An S3 with the entry point and the archives."""

    def download_file(self, _bucket: str, key: str, file: str) -> None:
        archive = io.BytesIO()
        with zipfile.ZipFile(archive, "w") as packed:
            packed.writestr("app/x.py", "")
        Path(file).write_bytes(archive.getvalue() if key.endswith(".zip") else b"")


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[EmrDriver]:
    shipper = LogShipper(ACCOUNT, REGION)
    host = Host("http://127.0.0.1:1", REGION, tmp_path, shipper)
    made = EmrDriver(host, provided_archives=("wheels",))
    monkeypatch.setattr(Host, "client", lambda *_: Assets())
    yield made
    made.close()
    shipper.close()


@pytest.fixture
def run(driver: EmrDriver, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Observer[JobRunEnd]]:
    def run(code: str, parameters: str = "") -> Observer[JobRunEnd]:
        def python(_main_class: str, *words: str, **_: int) -> list[str]:
            return [sys.executable, "-c", code, *words]

        monkeypatch.setattr(emr_driver, "spark_command", python)
        observer = Observer[JobRunEnd]()
        spec = JobRunSpec(
            arn=ARN,
            entry_point="s3://assets/entry.py",
            arguments=('{"a": 1}',),
            parameters=parameters,
        )
        driver.run(spec, observer)
        return observer

    return run


def described(driver: EmrDriver) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(driver.log_of(ARN).read_text())
    return content


@pytest.mark.parametrize(
    ("code", "end"),
    [
        ("", JobRunEnd("SUCCESS")),
        ("raise SystemExit(65)", JobRunEnd("FAILED", FAILED)),
    ],
)
def test_job_run_ends_as_its_spark_driver_does(
    run: Callable[..., Observer[JobRunEnd]], code: str, end: JobRunEnd
) -> None:
    assert run(code).wait() == end


def test_spark_driver_gets_the_options_files_and_environment_of_the_job_run(
    driver: EmrDriver, run: Callable[..., Observer[JobRunEnd]], tmp_path: Path
) -> None:
    run(
        DESCRIBE,
        "--conf spark.archives=s3://assets/code.zip#code,s3://assets/wheels.zip#wheels "
        "--conf spark.emr-serverless.driverEnv.GIVEN=here "
        "--conf spark.emr-serverless.driverEnv.AWS_DEFAULT_REGION=eu-west-1 "
        "--conf spark.executorEnv.PYTHONPATH=./code "
        "--conf spark.emr-serverless.driverEnv.PYSPARK_PYTHON=python3.13 "
        "--conf spark.executorEnv.PYSPARK_PYTHON=python3.13 "
        "--conf spark.driver.cores=16 --conf spark.executor.memory=60g "
        "--conf spark.dynamicAllocation.maxExecutors=8",
    ).wait()

    said = described(driver)
    words = said["argv"]
    confs = dict(word.split("=", 1) for word in words[1:-2:2])
    folder = tmp_path / "job-runs" / "r.tmp"
    assert words[-2:] == [str(folder / "entry.py"), '{"a": 1}']
    assert (confs["spark.master"], confs["spark.archives"]) == (MASTER, f"{folder}/code.zip#code")
    assert confs["spark.executorEnv.PYTHONPATH"] == "./code"
    assert not {
        name
        for name in confs
        if "PYSPARK_PYTHON" in name or name.startswith("spark.emr-serverless")
    }
    assert (confs["spark.executor.memory"], confs["spark.dynamicAllocation.maxExecutors"]) == (
        "768m",
        "2",
    )
    assert {"code/app/x.py", "entry.py"} <= set(said["files"])
    assert not any(file.startswith("wheels") for file in said["files"])
    assert said["env"]["GIVEN"] == "here"
    assert said["env"]["AWS_DEFAULT_REGION"] == "eu-west-1"
    assert "AWS_REGION" not in said["env"]
    assert said["env"]["AWS_ENDPOINT_URL"] == "http://127.0.0.1:1"
    assert said["env"]["PYSPARK_PYTHON"] == sys.executable
    assert not folder.exists()  # only the log is left


def test_cancelled_job_run_is_killed_and_its_end_is_called_back(
    driver: EmrDriver, run: Callable[..., Observer[JobRunEnd]]
) -> None:
    observer = run("import time; time.sleep(600)")
    eventually(lambda: observer.starts, "it starts")
    heard = Event()
    driver.on_end(ARN, heard.set)

    driver.stop(ARN, "enough")

    assert observer.wait().state == "CANCELLED"
    assert heard.wait(DEADLINE_S)
    driver.stop(ARN, "enough")  # it has ended: no error
