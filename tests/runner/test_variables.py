"""What a stage gives its jobs: variables, and secrets that nothing shows."""

import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from botocore.stub import Stubber
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that every PySpark text uses

from longhaul.core.errors import SecretUnreadableError
from longhaul.core.secret_refs import SecretRef
from longhaul.core.settings import JobVariables
from longhaul.core.verdict import ExitCode, OutcomeClass
from longhaul.job import Job
from longhaul.runner import json_logs, masked_output
from longhaul.runner.resources import Resources
from longhaul.runner.spark.gateway import LateGateway
from longhaul.runner.variables import AwsSecretValues
from tests.runner.conftest import Cloud, MakeAttempt

ARN = "arn:aws:secretsmanager:us-east-1:123456789012:secret:shop/db-AbCd12"
SECRET = "hunter22 correct horse"
VARIABLES = {"main": JobVariables(environment={"DB_HOST": "db"}, secrets={"DB_PASSWORD": ARN})}


class Values:
    def __init__(self, value: str = SECRET) -> None:
        self.value = value

    def read_secret(self, ref: SecretRef) -> str:
        assert ref.arn == ARN
        return self.value


class Denied:
    def read_secret(self, ref: SecretRef) -> str:
        raise SecretUnreadableError(f"the role of the stage cannot read {ref.arn}: AccessDenied")


@pytest.fixture
def process() -> Iterator[None]:
    """This process as it was, afterwards."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    environment = dict(os.environ)
    streams = sys.stdout, sys.stderr
    yield
    masked_output.end()
    sys.stdout, sys.stderr = streams
    os.environ.clear()
    os.environ.update(environment)
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.mark.usefixtures("process")
def test_a_job_and_the_processes_of_its_functions_have_the_variables_of_its_stage(
    make_attempt: MakeAttempt,
) -> None:
    seen: list[str] = []

    def run(spark: SparkSession, job: Job[Any]) -> None:
        seen.append(f"{os.environ['DB_HOST']} {os.environ['DB_PASSWORD']}")
        name = F.udf(lambda _: os.environ["DB_PASSWORD"])
        seen.extend(row[0] for row in spark.range(1).select(name("id")).collect())
        job.write(spark.range(1))

    others = {"other": JobVariables(environment={"THEIRS": "1"})}
    attempt = make_attempt(run, variables={**VARIABLES, **others}, secret_values=Values())
    assert attempt.run() is ExitCode.OK
    assert seen == [f"db {SECRET}", SECRET]
    assert "THEIRS" not in os.environ


@pytest.mark.usefixtures("process")
def test_nothing_that_a_job_says_shows_a_secret(
    capfd: pytest.CaptureFixture[str], cloud: Cloud, make_attempt: MakeAttempt
) -> None:
    # Not those of pytest, which go past the descriptors.
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115 - as Python opens them
    sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115 - as above
    json_logs.configure(job_id="a")

    def run(_spark: SparkSession, job: Job[Any]) -> Mapping[str, str]:
        print("with", os.environ["DB_PASSWORD"])  # noqa: T201 - as a job does
        logging.getLogger("job").warning("with %s", SECRET)
        job.progress(f"{'x' * 110} {SECRET}")
        raise ValueError(f"no login with {SECRET!r}")

    attempt = make_attempt(run, variables=VARIABLES, secret_values=Values())
    assert attempt.run() is ExitCode.FAILED
    row = cloud.lease()
    assert cloud.result().error == "ValueError: no login with '[DB_PASSWORD]'"
    assert "hunter22" not in str(row)
    sys.stdout.flush()
    masked_output.end()
    said = capfd.readouterr()
    assert "with [DB_PASSWORD]\n" in said.out  # beside the lines of the runner
    assert "with [DB_PASSWORD]" in said.err
    assert "hunter22" not in said.out + said.err


@pytest.mark.usefixtures("process")
def test_what_a_job_returns_is_kept_without_secrets(
    cloud: Cloud, make_attempt: MakeAttempt
) -> None:
    def run(spark: SparkSession, job: Any) -> None:
        job.write(spark.range(1))
        job.result = {"dsn": f"postgresql://a:{SECRET}@db", "rows": 1}

    attempt = make_attempt(run, variables=VARIABLES, secret_values=Values())
    assert attempt.run() is ExitCode.OK
    results = cloud.output().results
    assert results is not None
    assert results.value == {"dsn": "postgresql://a:[DB_PASSWORD]@db", "rows": 1}


@pytest.mark.parametrize("values", [Denied(), Values("a\0b")])
def test_a_secret_that_cannot_be_read_ends_the_attempt_before_the_job_with_its_name(
    cloud: Cloud, make_attempt: MakeAttempt, values: Any
) -> None:
    def run(_spark: SparkSession, _job: Job[Any]) -> None:
        raise AssertionError("the job has begun")

    attempt = make_attempt(run, variables=VARIABLES, secret_values=values)
    assert attempt.run() is ExitCode.DENIED
    result = cloud.result()
    assert result.kind == OutcomeClass.REFUSED
    assert result.error.startswith("SecretUnreadableError: DB_PASSWORD: ")


# A process whose job prints in every way, and ends in one.
PRINTS = """
import ctypes, logging, os, subprocess, sys, threading, time
from longhaul.runner.masking import Mask
from longhaul.runner import json_logs, stopping
from longhaul.runner.variables import give_to_process

json_logs.configure()
secret = 'hun"ter22'
give_to_process({"A": secret}, Mask({"A": secret, "B": "user\\nhunter3"}))
print("printed", secret)
print("in pieces", secret[:4], end="", flush=True)
print(secret[4:])
os.write(1, f"written {secret}\\n".encode())
logging.getLogger().warning("logged", extra={"detail": {"token": secret}})
ctypes.CDLL(None).puts(f"from C {secret}".encode())
ctypes.CDLL(None).fflush(None)
subprocess.run(["sh", "-c", 'echo "from a child $A"; echo "its error $A" >&2'], check=True)
sys.stdout.flush()
if os.fork() == 0:
    print("from a fork", secret, flush=True)
    os._exit(0)
os.wait()
print("user\\nhunter3.")
subprocess.Popen(["sleep", "20"])  # it holds the pipe
sys.stdout.write(f"the last {secret}")
"""
# Each way in which a runner ends.
ENDS = {
    "of itself": "",
    "end_process": "stopping.end_process(0)",
    "os._exit of a stop": "sys.stdout.flush(); stopping.end_with_children(0)",
    "an error": "raise ValueError(secret)",
}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_nothing_that_a_process_or_its_children_print_has_a_secret_or_is_lost(end: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PRINTS + end], capture_output=True, text=True, check=False
    )
    assert sorted(done.stdout.splitlines()) == sorted(
        [
            "printed [A]",
            "in pieces [A]",
            "written [A]",
            "from C [A]",
            "from a child [A]",
            "from a fork [A]",
            "[B].",
            "the last [A]",
        ]
    )
    assert done.returncode == ("raise" in end)
    assert "its error [A]" in done.stderr
    assert '"detail": {"token": "[A]"}' in done.stderr
    assert "hun" not in done.stdout + done.stderr
    assert ("ValueError: [A]" in done.stderr) == ("raise" in end)


# A line above all that is read at once, and one with a pause within the secret.
SLOW = """
import os, time
from longhaul.runner.masking import Mask
from longhaul.runner.variables import give_to_process

give_to_process({}, Mask({"A": "hunter22 correct horse"}))
os.write(1, b"hunter22 correct horse," * 20_000)
os.write(1, b"\\nhunter22 cor")
time.sleep(1.2)
os.write(1, b"rect horse")
"""


def test_a_secret_in_a_long_line_or_around_a_pause_is_cut_out_whole() -> None:
    done = subprocess.run([sys.executable, "-c", SLOW], capture_output=True, text=True, check=True)
    assert done.stdout == "[A]," * 20_000 + "\n[A]"


def test_a_jvm_that_is_started_late_has_no_secret_in_its_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[Mapping[str, str]] = []

    def begin(_command: object, *, env: Mapping[str, str], **_: object) -> None:
        started.append(env)
        raise InterruptedError

    monkeypatch.setattr("longhaul.runner.spark.gateway.subprocess.Popen", begin)
    gateway = LateGateway(tmp_path, Resources(1, 1024))
    # As the attempt does, before it knows that its job needs Spark.
    monkeypatch.setenv("DB_PASSWORD", SECRET)
    with pytest.raises(InterruptedError):
        gateway.start()

    (environment,) = started
    assert "SPARK_HOME" in environment
    assert "DB_PASSWORD" not in environment


PARAMETER = "arn:aws:ssm:us-east-1:123456789012:parameter/shop/token"


@pytest.fixture
def values(cloud: Cloud) -> AwsSecretValues:
    del cloud
    return AwsSecretValues(partial(boto3.client, region_name="us-east-1"))


def _secret(value: str | bytes) -> str:
    client = boto3.client("secretsmanager", region_name="us-east-1")
    if isinstance(value, bytes):
        return client.create_secret(Name="shop/db", SecretBinary=value)["ARN"]
    return client.create_secret(Name="shop/db", SecretString=value)["ARN"]


def test_a_secret_is_read_whole_or_by_a_key_of_its_json(values: AwsSecretValues) -> None:
    arn = _secret(json.dumps({"password": "hunter22", "port": 5432}))
    assert json.loads(values.read_secret(SecretRef.parse(arn)))["port"] == 5432
    assert values.read_secret(SecretRef.parse(f"{arn}:password::")) == "hunter22"
    assert values.read_secret(SecretRef.parse(f"{arn}:port:AWSCURRENT:")) == "5432"


def test_a_parameter_is_read_decrypted(values: AwsSecretValues) -> None:
    ssm = boto3.client("ssm", region_name="us-east-1")
    ssm.put_parameter(Name="/shop/token", Value="hunter22", Type="SecureString")
    assert values.read_secret(SecretRef.parse(PARAMETER)) == "hunter22"


@pytest.mark.parametrize(
    ("value", "key", "why"),
    [
        ("hunter22", "password", "it holds no JSON object"),
        ('["hunter22"]', "password", "it holds no JSON object"),
        ('{"pin": "hunter22"}', "password", "has no key 'password'"),
        (b"hunter22", "", "holds bytes"),
    ],
)
def test_what_no_variable_can_hold_is_said_without_the_value(
    values: AwsSecretValues, value: str | bytes, key: str, why: str
) -> None:
    arn = _secret(value)
    with pytest.raises(SecretUnreadableError) as raised:
        values.read_secret(SecretRef.parse(f"{arn}:{key}::"))
    assert why in str(raised.value)
    assert "hunter22" not in str(raised.value)
    assert raised.value.__cause__ is None


def test_a_secret_that_is_not_there_waits_for_people(values: AwsSecretValues) -> None:
    arn = "arn:aws:secretsmanager:us-east-1:123456789012:secret:gone-AbCd12"
    for missing in (arn, PARAMETER):
        with pytest.raises(SecretUnreadableError, match=r"NotFound"):
            values.read_secret(SecretRef.parse(missing))


@pytest.mark.parametrize(
    ("code", "is_final"),
    [
        ("AccessDeniedException", True),
        ("DecryptionFailure", True),
        ("InvalidRequestException", True),
        ("InternalServiceError", False),
        ("ThrottlingException", False),
    ],
)
def test_a_denial_waits_for_people_and_trouble_of_aws_for_the_next_attempt(
    code: str, *, is_final: bool
) -> None:
    client = boto3.client(
        "secretsmanager",
        region_name="us-east-1",
        aws_access_key_id="key",
        aws_secret_access_key="secret",
    )
    with Stubber(client) as stub:
        stub.add_client_error("get_secret_value", code, "no")
        values = AwsSecretValues(lambda _: client)
        arn = "arn:aws:secretsmanager:us-east-1:123456789012:secret:db-AbCd12"
        with pytest.raises(SecretUnreadableError if is_final else ClientError, match=code):
            values.read_secret(SecretRef.parse(arn))
