"""Two stages on the embedded AWS: what the tasks of each may read, through queue and machine."""

import json
from collections.abc import Iterator

import pytest

from longhaul.cli.local.aws import embedded_aws, roles_judge
from longhaul.cli.synth import PROFILE, synth
from longhaul.config.settings import CONTEXT_KEY
from tests.e2e.conftest import STAND_IN, Stack
from tests.e2e.rules import queue_of_rule

pytestmark = pytest.mark.slow

SECRET = "arn:aws:secretsmanager:us-east-1:123456789012:secret:{}"
PARAMETER = "arn:aws:ssm:us-east-1:123456789012:parameter/token"
VARIABLES = ("DB_HOST", "PASSWORD", "TOKEN", "THEIRS")


@pytest.fixture
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    profile = json.loads(PROFILE.read_text())[CONTEXT_KEY]
    (main,) = profile["stages"]
    profile["stages"] = [
        {
            **main,
            "next": ["clean"],
            "advanced": {
                **main["advanced"],
                "tree_ended": True,
                "limits": {"input_prefixes": ["raw/"], "output_prefixes": ["parsed/"]},
                "environment": {"DB_HOST": "db"},
                "secrets": {
                    "PASSWORD": SECRET.format("main-AbCd12:password::"),
                    "TOKEN": PARAMETER,
                },
            },
        },
        {
            "name": "clean",
            "job": "probe",
            "advanced": {
                "limits": {"input_prefixes": ["reference/"], "output_prefixes": ["stages/clean/"]},
                "secrets": {"THEIRS": SECRET.format("clean-AbCd12")},
                "policies": [
                    {
                        "Effect": "Allow",
                        "Action": "s3:GetObject",
                        "Resource": "arn:aws:s3:::helpers/*",
                    }
                ],
            },
        },
    ]
    # Nothing of it runs here, and it is long in the settings of each function.
    profile["emr_serverless"] = None
    folder = tmp_path_factory.mktemp("embedded-aws")
    assembly = synth(folder / "cdk.out", context={CONTEXT_KEY: profile})
    with embedded_aws(folder / "aws", task_dir=STAND_IN, iam=roles_judge()) as aws:
        yield Stack(aws, aws.deploy(assembly, "Longhaul"))


def test_a_task_reads_what_its_stage_may_and_is_denied_what_is_anothers(stack: Stack) -> None:
    s3, sqs = stack.client("s3"), stack.client("sqs")
    trees = queue_of_rule(stack, "trees", {"detail-type": ["Longhaul Tree Ended"]})
    s3.create_bucket(Bucket="helpers")
    places = {
        "raw": (stack.bucket, "raw/a"),
        "parsed": (stack.bucket, "parsed/a"),
        "reference": (stack.bucket, "reference/a"),
        "helpers": ("helpers", "a"),
        "saved by main": (stack.bucket, "longhaul/saved/main!x/1-1/0/0"),
        "saved by clean": (stack.bucket, "longhaul/saved/clean!x/1-1/0/0"),
    }
    for bucket, key in places.values():
        s3.put_object(Bucket=bucket, Key=key, Body=b"read")
    uris = {name: f"s3://{bucket}/{key}" for name, (bucket, key) in places.items()}
    for name in ("PASSWORD", "TOKEN"):
        code, _, said_of_it = stack.longhaul("secret", "set", name, input=f"value of {name}\n")
        assert code == 0, said_of_it
    outputs = {"main": "parsed/one", "clean": "stages/clean/one"}
    queues = {"main": "JobsQueueUrl", "clean": "CleanQueueUrl"}

    for stage, prefix in outputs.items():
        request = json.loads(
            stack.plan("one", "ok", output=f"s3://{stack.bucket}/{prefix}/", label=stage)
        )
        request["params"]["reads"] = [*uris.values()]
        request["params"]["variables"] = VARIABLES
        sqs.send_message(QueueUrl=stack.outputs[queues[stage]], MessageBody=json.dumps(request))

    # A secret that is not there lets its job wait, and says which it is.
    stack.wait_for(
        lambda: (row := stack.leases.load("clean#one")) and row.last_class == "refused",
        "the refusal of clean",
    )
    waiting = stack.leases.load("clean#one")
    assert waiting is not None
    assert "THEIRS: the role of the stage cannot read" in (waiting.last_error or "")
    assert waiting.failures == 0
    code, _, said_of_it = stack.longhaul("secret", "set", "THEIRS", input="value of THEIRS\n")
    assert code == 0, said_of_it
    said, known = {}, {}
    for stage, prefix in outputs.items():
        ended = stack.wait_for(
            lambda stage=stage: (row := stack.leases.load(f"{stage}#one")) and row.is_finished,
            f"the end of {stage}",
        )
        assert ended
        (row,) = stack.rows(prefix)
        said[stage] = {name: row["reads"][uri] for name, uri in uris.items()}
        known[stage] = row["variables"]
    assert known == {
        "main": {
            "DB_HOST": "db",
            "PASSWORD": "value of PASSWORD",
            "TOKEN": "value of TOKEN",
            "THEIRS": None,
        },
        "clean": {"DB_HOST": None, "PASSWORD": None, "TOKEN": None, "THEIRS": "value of THEIRS"},
    }
    assert said == {
        "main": {
            "raw": "read",
            "parsed": "read",
            "reference": "AccessDenied",
            "helpers": "AccessDenied",
            "saved by main": "read",
            "saved by clean": "AccessDenied",
        },
        "clean": {
            "raw": "AccessDenied",
            # The stage before it writes there.
            "parsed": "read",
            "reference": "read",
            "helpers": "read",
            "saved by main": "AccessDenied",
            "saved by clean": "read",
        },
    }
    # What follows from the job of main is published with the rights of clean.
    stack.wait_for(lambda: _published(stack, "stages/clean/one/clean/"), "the follow-on's output")
    # The role of the sweeper may look at the tree, and tell that it has ended.
    stack.wait_for(lambda: stack.invoke("sweeper", {})["trees_told"], "the end of the tree")
    (message,) = sqs.receive_message(QueueUrl=trees, MaxNumberOfMessages=10)["Messages"]
    told = json.loads(message["Body"])["detail"]
    assert (told["job_id"], told["outcome"]) == ("one", "SUCCEEDED")
    assert told["jobs"] == {"main": {"SUCCEEDED": 1}, "clean": {"SUCCEEDED": 1}}


def _published(stack: Stack, prefix: str) -> bool:
    listed = stack.client("s3").list_objects_v2(Bucket=stack.bucket, Prefix=prefix)
    return any(each["Key"].endswith("/_SUCCESS") for each in listed.get("Contents", ()))
