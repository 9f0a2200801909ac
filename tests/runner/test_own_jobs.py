"""Jobs that a message brings along: modules and ordinary scripts, from S3."""

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

from longhaul.core.places import DataPath
from longhaul.core.results import Results, read_results
from longhaul.core.settings import LeaseSettings, PathPolicy
from longhaul.core.verdict import ExitCode
from longhaul.outputs.lineage import Writer
from longhaul.outputs.manifest import Manifest, ManifestFile
from longhaul.outputs.publisher import read_manifest
from longhaul.runner.io.listing import InputListing, staged_at
from longhaul.runner.loading import MAX_CODE_BYTES
from tests.builders import BUCKET, settings, there
from tests.patience import DEADLINE_S
from tests.runner.conftest import Cloud, MakeAttempt

CODE = f"s3://{BUCKET}/jobs/own.py"
OUTPUT = "clean/2013-01/"

Run = Callable[..., ExitCode]


@pytest.fixture
def run(cloud: Cloud, make_attempt: MakeAttempt) -> Run:
    """Runs a request whose job is this code."""

    def run_(code: str | bytes | None, **changes: Any) -> ExitCode:
        if code is not None:
            body = code if isinstance(code, bytes) else code.encode()
            cloud.s3.put_object(Bucket=BUCKET, Key="jobs/own.py", Body=body)
        cloud.claim(**{"job": CODE, "inputs": {}, **changes})
        allowed = PathPolicy(data_bucket=BUCKET, job_prefixes=(f"s3://{BUCKET}/jobs/",))
        attempt = make_attempt(
            settings=settings(lease=LeaseSettings(progress_period_s=0.05), paths=allowed)
        )
        return attempt.run()

    return run_


def read(cloud: Cloud, dataset: str = ".") -> bytes:
    files = [file.path for file in cloud.manifest().of_dataset(dataset)]
    return b"".join(
        cloud.s3.get_object(Bucket=BUCKET, Key=OUTPUT + path)["Body"].read()
        for path in sorted(files)
    )


MODULE = """
from pyspark.sql import functions as F
from longhaul.job import Job, Params as Base

class Params(Base):
    word: str

def shout(text):
    return text.upper()

def run(spark, job):
    loud = F.udf(shout)
    words = spark.createDataFrame([(job.params.word,)], "word string")
    job.write(words.select(loud("word").alias("word")), format="json")
"""


def test_a_module_from_s3_runs_with_its_parameters_and_its_functions_in_sparks_workers(
    cloud: Cloud, run: Run
) -> None:
    assert run(MODULE, params={"word": "hello"}) is ExitCode.OK
    assert read(cloud) == b'{"word":"HELLO"}\n'
    assert cloud.manifest().rows == {".": 1}


SCRIPT = """
import sys
from pyspark.sql import SparkSession

def double(n):
    return n * 2

def main():
    spark = SparkSession.builder.appName("any").master("local[1]").getOrCreate()
    source, target, label = sys.argv[1:]
    rows = spark.read.csv(source, header=True, inferSchema=True)
    doubled = rows.rdd.map(lambda row: (double(row.n), label)).toDF(["n", "label"])
    doubled.coalesce(1).write.mode("overwrite").json(target)
    spark.stop()

if __name__ == "__main__":
    main()
"""


def test_an_ordinary_script_runs_unchanged_with_our_session_and_its_argv(
    cloud: Cloud, run: Run
) -> None:
    cloud.s3.put_object(Bucket=BUCKET, Key="raw/a.csv", Body=b"n\n1\n2\n")
    before = sys.argv

    argv = ["{inputs.rows}", "{output}", "{not ours}"]
    assert run(SCRIPT, inputs={"rows": f"s3://{BUCKET}/raw/"}, params={"argv": argv}) is ExitCode.OK

    assert read(cloud) == b'{"n":2,"label":"{not ours}"}\n{"n":4,"label":"{not ours}"}\n'
    assert cloud.manifest().rows == {}
    assert sys.argv is before


def test_a_script_says_its_result_and_its_metrics_in_files(cloud: Cloud, run: Run) -> None:
    script = (
        "import sys, pathlib\nout, result, metrics = map(pathlib.Path, sys.argv[1:])\n"
        "out.write_text('x')\nresult.write_text('{\"days\": 3}')\n"
        'metrics.write_text(\'{"bad_rows": 2, "share": NaN, "not a name": 1}\')'
    )
    argv = ["{output}/a.txt", "{result}", "{metrics}"]
    assert run(script, params={"argv": argv}) is ExitCode.OK

    assert cloud.output().results == Results({"days": 3}, None, {}, {"bad_rows": 2})


def test_a_result_that_cannot_be_kept_loses_no_work(
    cloud: Cloud, run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    code = (
        "def run(spark, job):\n    job.write(spark.range(3))\n"
        "    job.metric('share', float('nan'))\n    return 'x' * 5_000"
    )
    assert run(code) is ExitCode.OK

    why = "it has 5,002 bytes of JSON; at most 4,096"
    assert cloud.output().results == Results(None, why, {".": 3}, {})
    assert why in caplog.text
    assert "xxx" not in caplog.text


def test_a_job_finds_the_results_of_those_that_wrote_its_inputs(cloud: Cloud, run: Run) -> None:
    wrote = Manifest(
        key="clean#a/clean/1",
        run=7,
        attempt=2,
        files=(ManifestFile(path="a.csv", size=2),),
        results={"value": {"days": 7}, "rows": {".": 3}, "metrics": {"bad_rows": 1}},
    )
    for key in ("clean/1/a.csv", "raw/a.csv"):
        cloud.s3.put_object(Bucket=BUCKET, Key=key, Body=b"n\n")
    manifest_text = wrote.model_dump_json().encode()
    cloud.s3.put_object(Bucket=BUCKET, Key="clean/1/_SUCCESS", Body=manifest_text)
    inputs = {"a": f"s3://{BUCKET}/clean/1", "b": f"s3://{BUCKET}/raw/"}
    code = (
        "from dataclasses import asdict\ndef run(spark, job):\n"
        "    job.write(spark.range(1))\n    job.metric('ones', 1)\n"
        "    return {name: asdict(each) for name, each in job.parents.items()}"
    )

    assert run(code, inputs=inputs) is ExitCode.OK

    results = there(cloud.output().results)
    assert results.value == {
        "a": {
            "id": "a/clean/1",
            "stage": "clean",
            "run": 7,
            "attempt": 2,
            "result": {"days": 7},
            "rows": {".": 3},
            "metrics": {"bad_rows": 1},
        }
    }
    # Those that read the output find its own.
    assert read_results(cloud.manifest().results or {}) == results


def test_the_manifest_knows_the_types_that_texts_and_folders_lose(cloud: Cloud, run: Run) -> None:
    code = (
        "def run(spark, job):\n"
        "    rows = spark.sql(\"select '00501' zip, 1 n, date'2020-01-31' day, 2.5 x, map() a\")\n"
        "    job.write(rows.drop('a'), format='csv', partition_by=['zip', 'day'])\n"
        "    job.write(rows, 'rows', partition_by=['zip', 'n'])\n"
        "    job.write(rows, 'whole')"
    )

    assert run(code) is ExitCode.OK

    assert cloud.manifest().types == {
        ".": {"n": "integer", "day": "date", "x": "decimal(2,1)"},
        "rows": {"n": "integer"},
    }
    listing = InputListing(cloud.s3, BUCKET)
    for place, types in {
        OUTPUT: {"n": "integer", "day": "date", "x": "decimal(2,1)"},
        f"{OUTPUT}rows/zip=00501/": {"n": "integer"},
        f"{OUTPUT}whole/": {},
        f"{OUTPUT}*/": {},
    }.items():
        sources = listing.sources_of(DataPath("s3", BUCKET, place))
        assert staged_at("", sources).types == types, place


def test_an_output_says_which_attempt_wrote_it_from_what(cloud: Cloud, run: Run) -> None:
    wrote = Manifest(key="clean#1", run=7, attempt=2, files=(ManifestFile(path="a.csv", size=2),))
    objects = {"clean/1/a.csv": b"n\n", "raw/a.csv": b"n\n", "raw/b.csv": b"n\n"}
    objects |= {"clean/1/_SUCCESS": wrote.model_dump_json().encode()}
    etags = {
        key: cloud.s3.put_object(Bucket=BUCKET, Key=key, Body=body)["ETag"]
        for key, body in objects.items()
    }
    inputs = {
        "output": f"s3://{BUCKET}/clean/1",
        "glob": f"s3://{BUCKET}/clean/*",
        "folder": f"s3://{BUCKET}/raw/",
        "one": f"s3://{BUCKET}/raw/a.csv",
    }

    code = "def run(spark, job):\n    job.write(spark.range(1))"
    assert run(code, inputs=inputs) is ExitCode.OK

    (origin,) = cloud.manifest().origins
    assert origin.id == cloud.lease().id
    assert origin.at is not None
    found = {each.name: each for each in origin.inputs}
    writer = Writer(place=f"s3://{BUCKET}/clean/1/", key="clean#1", run=7, attempt=2)
    assert {name: each.writers for name, each in found.items()} == {
        "output": (writer,),
        "glob": (writer,),
        "folder": (),
        "one": (),
    }
    assert found["one"].version == etags["raw/a.csv"].strip('"')
    assert (found["folder"].files, found["folder"].size_bytes) == (2, 4)
    assert len({found[name].version for name in ("output", "folder", "one")}) == 3


def test_a_script_may_write_several_datasets_and_to_further_outputs_without_spark(
    cloud: Cloud, run: Run
) -> None:
    script = "import sys, pathlib\nfor word in sys.argv[1:]: pathlib.Path(word).write_text('x')"
    argv = [
        *("{output}/a.txt", "{output.notes}/b.txt"),
        *("{outputs.report}/b.txt", "{outputs.report.more}/c.txt"),
    ]
    outputs = {"report": f"s3://{BUCKET}/report/"}
    assert run(script, params={"argv": argv}, outputs=outputs) is ExitCode.OK

    assert [file.dataset for file in cloud.manifest("report/").files] == [".", "more"]
    assert (read(cloud), read(cloud, "notes")) == (b"x", b"x")


def test_no_output_is_published_while_one_is_not_written(cloud: Cloud, run: Run) -> None:
    code = "def run(spark, job):\n    job.write(spark.range(1))"
    assert run(code, outputs={"report": f"s3://{BUCKET}/report/"}) is ExitCode.FAILED
    assert "the job wrote nothing to outputs.report" in str(cloud.result().error)
    assert read_manifest(cloud.s3, BUCKET, OUTPUT) == (None, None)


@pytest.mark.parametrize(
    ("code", "params", "exit_code", "error"),
    [
        ("pass", {}, ExitCode.FAILED, "the job ended without writing anything"),
        ("import sys; sys.exit(3)", {}, ExitCode.FAILED, "ExitError: the job exited with 3"),
        (
            "import sys; sys.exit('no luck')",
            {},
            ExitCode.FAILED,
            "ExitError: the job exited with no luck",
        ),
        (
            "import sys; sys.exit(65)",
            {},
            ExitCode.PERMANENT,
            "the job exited with 65: it cannot succeed",
        ),
        (
            "import sys\ndef run(spark, job): sys.exit('no luck')",
            {},
            ExitCode.FAILED,
            "ExitError: the job exited with no luck",
        ),
        (
            "import sys\ndef run(spark, job): sys.exit(65)",
            {},
            ExitCode.PERMANENT,
            "the job exited with 65: it cannot succeed",
        ),
        (
            "def run(spark, job): raise KeyboardInterrupt('by hand')",
            {},
            ExitCode.FAILED,
            "ExitError: the job ended with KeyboardInterrupt: by hand",
        ),
        (
            "import asyncio\nraise asyncio.CancelledError",
            {},
            ExitCode.FAILED,
            "ExitError: the job ended with CancelledError",
        ),
        (
            "import sys\nsys.exit('no luck')\ndef run(spark, job): ...",
            {},
            ExitCode.PERMANENT,
            "job: own.py:2: SystemExit: no luck",
        ),
        (
            "import json\n\njson.loads('')\ndef run(spark, job): ...",
            {},
            ExitCode.PERMANENT,
            "job: own.py:3: JSONDecodeError: Expecting value",
        ),
        (
            "KEYS = {}\nKEYS['2026-11-29']\ndef run(spark, job): ...",
            {"key": "2026-11-29"},
            ExitCode.PERMANENT,
            "job: own.py:2: KeyError: '2026-11-29'",
        ),
        (
            "open('/nowhere')\ndef run(spark, job): ...",
            {},
            ExitCode.PERMANENT,
            "job: own.py:1: FileNotFoundError: [Errno 2]",
        ),
        (
            "raise TimeoutError('no answer')\ndef run(spark, job): ...",
            {},
            ExitCode.FAILED,
            "TimeoutError: no answer",
        ),
        (
            "raise MemoryError\ndef run(spark, job): ...",
            {},
            ExitCode.OUT_OF_MEMORY,
            "MemoryError",
        ),
        (
            "import pyspark.sql.functions as F\nF.udf('a b c')(len)\ndef run(spark, job): ...",
            {},
            ExitCode.PERMANENT,
            "job: own.py:2: [PARSE_SYNTAX_ERROR] Syntax error",
        ),
        (
            "return\ndef run(spark, job): ...",
            {},
            ExitCode.PERMANENT,
            "job: own.py:1: SyntaxError: 'return' outside function",
        ),
        (
            "import longhaul.job as j\nclass Params(j.Params): x: 'No'\ndef run(spark, job): ...",
            {},
            ExitCode.PERMANENT,
            "job: Params cannot be used: `Params` is not fully defined; you should define `No`",
        ),
        ("import sys; sys.exit()", {}, ExitCode.FAILED, "the job ended without writing anything"),
        ("raise KeyError('x')", {}, ExitCode.FAILED, "KeyError: 'x'"),
        (
            "pass",
            {"argv": ["{inputs.a}"]},
            ExitCode.PERMANENT,
            "params.argv: 'a' is no input of the request",
        ),
        (
            "pass",
            {"argv": ["--to={folder.my model}", "{output}"]},
            ExitCode.PERMANENT,
            "params.argv: 'my model' is no folder name: letters, digits, _ and -, at most 64",
        ),
        (
            "pass",
            {"argv": ["{output.a b}"]},
            ExitCode.PERMANENT,
            "params.argv: 'a b' is no dataset",
        ),
        ("pass", {"argv": ["{output.}"]}, ExitCode.PERMANENT, "params.argv: '' is no dataset name"),
        (
            "pass",
            {"argv": "text"},
            ExitCode.PERMANENT,
            "params.argv: Input should be a valid tuple",
        ),
        ("pass", {"args": []}, ExitCode.PERMANENT, "params.args: Extra inputs are not permitted"),
        ("def run(spark, job:", {}, ExitCode.PERMANENT, "job: own.py:1 is no Python"),
        (b"\x00\xff", {}, ExitCode.PERMANENT, f"job: {CODE} is no Python"),
        (
            "import nowhere\ndef run(spark, job): ...",
            {},
            ExitCode.PERMANENT,
            "job: own.py:1: ModuleNotFoundError: No module named 'nowhere': a line in requirements",
        ),
        (
            "#" * (MAX_CODE_BYTES + 1),
            {},
            ExitCode.PERMANENT,
            f"job: {CODE} has 1048577 bytes, more than the 1048576",
        ),
        (None, {}, ExitCode.PERMANENT, f"job: nothing at {CODE}"),
    ],
)
def test_code_that_cannot_run_says_why(
    cloud: Cloud,
    run: Run,
    code: str | bytes | None,
    params: dict[str, Any],
    exit_code: ExitCode,
    error: str,
) -> None:
    assert run(code, params=params) is exit_code
    assert cloud.result().error.startswith(error)
    assert cloud.objects(OUTPUT) == []


def test_code_that_may_not_be_read_is_permanent(
    cloud: Cloud, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    stock = cloud.s3.get_object

    def denied(**arguments: str) -> Any:
        if arguments["Key"] == "jobs/own.py":
            raise ClientError({"Error": {"Code": "AccessDenied"}}, "GetObject")
        return stock(**arguments)

    monkeypatch.setattr(cloud.s3, "get_object", denied)
    assert run("pass") is ExitCode.PERMANENT
    assert "the task's role may not read it" in cloud.result().error


@pytest.mark.parametrize(
    ("end", "status"),
    [
        ("sys.exit(3)", 3),
        ("sys.exit('x')", 1),
        ("sys.exit()", 0),
        ("pass", 0),
        ("1 // 0", 1),
        ("raise KeyboardInterrupt", 1),
    ],
)
def test_a_process_that_a_job_has_forked_does_not_go_on_as_the_runner(
    end: str, status: int
) -> None:
    code = f"""
import os, sys
from longhaul.runner.failures import heeding_exits

with heeding_exits():
    child = os.fork()
    if not child:
        {end}
    else:
        print("status", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
print("runner")
"""
    ran = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, timeout=DEADLINE_S
    )
    assert ran.stdout.decode().split() == ["status", str(status), "runner"]
