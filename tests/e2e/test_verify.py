"""`longhaul verify` against the embedded AWS: every case."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from longhaul.cli.local.aws import embedded_aws, roles_judge
from longhaul.cli.synth import PROFILE, synth
from longhaul.config.settings import CONTEXT_KEY
from tests.e2e.conftest import STAND_IN, Stack

CASES = {
    "success",
    "failure",
    "refusal",
    "invalid",
    "duplicate",
    "cancel",
    "stopped-task",
    "stopped-execution",
    "table",
}


@pytest.fixture
def probed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A runner without Spark, and no EMR Serverless, whose drivers have a real one in any case."""
    local = json.loads(PROFILE.read_text())[CONTEXT_KEY]
    del local["emr_serverless"]
    folder = tmp_path_factory.mktemp("embedded-aws")
    assembly = synth(folder / "cdk.out", context={CONTEXT_KEY: local})
    with embedded_aws(folder / "aws", task_dir=STAND_IN, iam=roles_judge()) as aws:
        yield Stack(aws, aws.deploy(assembly, "Longhaul"))


def verify(stack: Stack) -> tuple[int, list[dict[str, Any]], str]:
    code, out, err = stack.longhaul("verify", "--json")
    return code, [json.loads(line) for line in out.splitlines()], err


@pytest.mark.slow  # a stack of its own, and some fifteen jobs
def test_a_deployed_stack_passes_every_case_and_nothing_is_left(probed: Stack) -> None:
    code, found, err = verify(probed)
    story = f"{err}\n{probed.story()}"
    assert {each["case"]: each["verdict"] for each in found} == dict.fromkeys(CASES, "passed"), (
        story
    )
    assert code == 0
    probed.until_quiet()
    for queue in ("JobsQueueUrl", "DeadLetterQueueUrl"):
        assert (
            not probed.client("sqs").receive_message(QueueUrl=probed.outputs[queue]).get("Messages")
        )
    s3 = probed.client("s3")
    assert not probed.client("glue").get_tables(DatabaseName="longhaul")["TableList"]
    for prefix in ("verify/", "tables/"):
        assert not s3.list_objects_v2(Bucket=probed.bucket, Prefix=prefix).get("Contents")


@pytest.mark.slow  # some twelve starts of Spark
def test_the_same_with_spark_and_with_emr_serverless(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    assembly = synth(tmp_path_factory.mktemp("verified") / "cdk.out")
    with embedded_aws(tmp_path_factory.mktemp("embedded-aws"), iam=roles_judge()) as aws:
        stack = Stack(aws, aws.deploy(assembly, "Longhaul"))
        code, found, err = verify(stack)
        story = f"{err}\n{stack.story()}"
    verdicts = {each["case"]: each["verdict"] for each in found}
    assert verdicts == dict.fromkeys(CASES | {"emr-serverless"}, "passed"), story
    assert code == 0
