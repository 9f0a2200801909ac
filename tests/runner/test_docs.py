"""Every snippet of docs/jobs.md, and of docs/outputs.md before its tables, is true."""

import json
import re
import tomllib
from collections.abc import Callable
from gzip import compress
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pyspark.sql import SparkSession

from longhaul.config.settings import Settings
from longhaul.config.sizes import FARGATE_FREE_DISK_GIB
from longhaul.config.stages import StageDeployment
from longhaul.core.places import TablePath
from longhaul.core.policy import parse_request
from longhaul.core.results import Results
from longhaul.core.settings import LeaseSettings, PathPolicy, RuntimeSettings
from longhaul.core.verdict import ExitCode
from longhaul.outputs.iceberg.catalog import Tables
from tests.builders import BUCKET, settings, stage, there
from tests.layers import ROOT
from tests.runner.conftest import Cloud, MakeAttempt
from tests.runner.job_attempts import loaded

PAGE = (ROOT / "docs" / "jobs.md").read_text()
PAGE += (ROOT / "docs" / "outputs.md").read_text().partition("\n## Tables\n")[0]
PAGE = PAGE.replace("my-data", BUCKET)
PAGE = PAGE.replace("table://longhaul/", "table://lake/")
SNIPPETS: list[tuple[str, str]] = re.findall(
    r"^```(\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL
)
# By the comment in their first line: where they belong.
FILES = {
    code.partition("\n")[0].removeprefix("# "): code for kind, code in SNIPPETS if kind == "python"
}
MESSAGES = {json.loads(text)["job"]: json.loads(text) for kind, text in SNIPPETS if kind == "json"}
FLIGHTS = (
    b"year,month,day,carrier,distance\n2013,1,1,UA,1400\n2013,1,1,AA,1089\n2013,1,2,UA,200\n"
    b"2013,2,1,UA,1\n2013,2,1,UA,2\n"
)


def known(*names: str) -> RuntimeSettings:
    return settings(
        jobs=names or ("sql",),
        lease=LeaseSettings(progress_period_s=0.05),
        paths=PathPolicy(
            data_bucket=BUCKET,
            job_prefixes=(f"s3://{BUCKET}/jobs/",),
            table_databases=("lake",),
        ),
    )


@pytest.fixture
def project(tmp_path: Path, use_jobs: Callable[[Path], None]) -> list[str]:
    """Put the page's jobs into a project; returns their names."""
    jobs = {Path(place): code for place, code in FILES.items() if place.startswith("jobs/")}
    for place, code in jobs.items():
        (tmp_path / place.name).write_text(code)
    use_jobs(tmp_path)
    return [place.stem for place in jobs]


@pytest.fixture
def run(cloud: Cloud, make_attempt: MakeAttempt, project: list[str]) -> Callable[[str], ExitCode]:
    """Runs the page's message for a job, with flights and code where it says."""

    def run_(job: str) -> ExitCode:
        cloud.s3.put_object(Bucket=BUCKET, Key="raw/2013-01.csv.gz", Body=compress(FLIGHTS))
        if job.startswith("s3://"):
            cloud.s3.put_object(
                Bucket=BUCKET, Key=job.partition(f"{BUCKET}/")[2], Body=FILES[job].encode()
            )
        cloud.claim(**MESSAGES[job])
        return make_attempt(settings=known(*project)).run()

    return run_


def output(cloud: Cloud, prefix: str, dataset: str = ".") -> list[bytes]:
    """Lines of the output, found by the reader that the page shows."""
    reader: dict[str, Any] = {}
    exec(FILES["any reader"], reader)  # noqa: S102 - our own page
    keys = [
        path.partition(f"{BUCKET}/")[2]
        for path in reader["files_of"](cloud.s3, BUCKET, prefix, dataset)
    ]
    return b"".join(
        cloud.s3.get_object(Bucket=BUCKET, Key=key)["Body"].read() for key in keys
    ).splitlines()


def test_the_alarms_are_those_of_a_stage() -> None:
    (text,) = (code for kind, code in SNIPPETS if kind == "toml")
    (found,) = tomllib.loads(text)["stages"]
    assert StageDeployment.model_validate(found).advanced.alarms == (
        *("parse: bad_rows > 100", "parse: share <= 0.5"),
    )


def test_the_job_of_a_project(cloud: Cloud, run: Callable[[str], ExitCode]) -> None:
    assert run("busy_days") is ExitCode.OK
    manifest = cloud.manifest("busy/2013/")
    assert manifest.rows == {".": 2, "carriers": 2}
    assert cloud.output().results == Results({"carriers": 2}, None, manifest.rows, {"days": 3})
    assert all("year=2013/month=" in file.path for file in manifest.of_dataset("."))
    assert {b"UA,4", b"AA,1"} <= set(output(cloud, "busy/2013/", "carriers"))


@pytest.mark.usefixtures("project")
def test_the_job_with_several_outputs(
    cloud: Cloud, tables: Tables, make_attempt: MakeAttempt
) -> None:
    cloud.s3.put_object(Bucket=BUCKET, Key="raw/2013-01.csv.gz", Body=compress(FLIGHTS))
    cloud.claim(**MESSAGES["daily"])

    assert make_attempt(settings=known("daily")).run() is ExitCode.OK

    table = loaded(tables, TablePath("lake", "daily"))
    assert table.scan().to_arrow().num_rows == 3
    assert {b"UA,4", b"AA,1"} <= set(output(cloud, "reports/2013-01/"))
    assert there(cloud.output().results).rows == {
        ".": 3,
        "outputs.report": 2,
        "outputs.short/by-carrier": 3,
    }


@pytest.mark.usefixtures("project")
def test_the_job_without_spark(cloud: Cloud, make_plain_attempt: MakeAttempt) -> None:
    cloud.s3.put_object(Bucket=BUCKET, Key="texts/a.txt", Body=b"a wonderful example")
    cloud.claim(
        job="long_words",
        inputs={"texts": f"s3://{BUCKET}/texts/"},
        output=f"s3://{BUCKET}/words/",
        params={},
    )

    assert make_plain_attempt(settings=known("long_words")).run() is ExitCode.OK

    assert cloud.manifest("words/").rows == {".": 1}


def test_the_module_that_a_message_names(cloud: Cloud, run: Callable[[str], ExitCode]) -> None:
    assert run(f"s3://{BUCKET}/jobs/longest.py") is ExitCode.OK
    assert [json.loads(line)["distance"] for line in output(cloud, "longest/")] == [
        1400,
        1089,
        200,
        2,
        1,
    ]


def test_the_ordinary_script(cloud: Cloud, run: Callable[[str], ExitCode]) -> None:
    assert run(f"s3://{BUCKET}/jobs/by_carrier.py") is ExitCode.OK
    assert output(cloud, "by-carrier/") == [
        b'{"carrier":"AA","count":1}',
        b'{"carrier":"UA","count":4}',
    ]


@pytest.mark.usefixtures("project")
def test_the_test_of_a_job(
    spark: SparkSession,
    make_job: Any,
    written: Any,
    metrics: Any,
    kept_result: Any,
    tmp_path: Path,
) -> None:
    module = ModuleType("test_of_the_page")
    exec(FILES["tests/test_busy_days.py"], vars(module))  # noqa: S102 - our own page
    (test,) = (value for name, value in vars(module).items() if name.startswith("test_"))
    test(spark, make_job, written, metrics, kept_result, tmp_path)


@pytest.mark.parametrize("job", MESSAGES)
def test_every_message_is_valid_where_the_settings_allow_its_code(job: str) -> None:
    assert (
        parse_request(
            json.dumps(MESSAGES[job]), known("busy_days", "daily", "wav_previews"), stage()
        ).job
        == job
    )


def test_the_table_of_sizes_is_that_of_the_settings() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (\d+) \| (\d+) GiB \| (\d+) GiB \|$", PAGE, re.MULTILINE)
    assert [
        (name, int(cpu) * 1024, int(memory) * 1024, int(disk)) for name, cpu, memory, disk in rows
    ] == [
        (name, size.cpu, size.memory_mib, size.disk_gib)
        for name, size in Settings().sizes.by_name().items()
    ]
    assert f"{FARGATE_FREE_DISK_GIB} to 200 GiB of disk" in PAGE
