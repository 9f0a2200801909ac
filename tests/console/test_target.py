import json
import os
from pathlib import Path
from typing import Any

import boto3
import psutil
import pytest
from botocore import exceptions
from botocore.exceptions import ClientError

from console.errors import ExitCode, translated
from console.target import Place, Target, locate
from local import running
from longhaul.settings import VARIABLE
from tests.console.conftest import Session, World
from tests.fakes.service import Call, Proceed, client_error


def up(folder: Path, **changes: Any) -> None:
    me = psutil.Process()
    found = {
        "endpoint": "http://127.0.0.1:1",
        "region": "us-east-1",
        "stack": "Longhaul",
        "pid": me.pid,
        "started": me.create_time(),
    }
    (folder / running.FILE).write_text(json.dumps(found | changes))


def test_an_embedded_aws_that_runs_is_found(tmp_path: Path) -> None:
    running.announce(tmp_path, endpoint="http://127.0.0.1:1", region="us-east-1", stack="Longhaul")
    assert locate(None, None, {}, tmp_path) == Place("http://127.0.0.1:1", "us-east-1", None, embedded=True)
    running.withdraw(tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert locate(None, None, {}, tmp_path) == Place(None, None, None, embedded=False)


@pytest.mark.parametrize("changes", [{"pid": 2**22 + 1}, {"started": 1.0}, {"colour": "red"}], ids=str)
def test_what_a_crash_or_another_version_left_is_passed_over(tmp_path: Path, changes: dict[str, Any]) -> None:
    up(tmp_path, **changes)
    assert not locate(None, None, {}, tmp_path).embedded
    (tmp_path / running.FILE).write_text("{half")
    assert not locate(None, None, {}, tmp_path).embedded


def test_an_announcement_of_another_process_is_not_taken_back(tmp_path: Path) -> None:
    up(tmp_path, pid=os.getppid())
    running.withdraw(tmp_path)
    assert (tmp_path / running.FILE).exists()


def test_a_profile_or_a_region_mean_aws_whatever_runs_here(tmp_path: Path) -> None:
    up(tmp_path)
    assert locate("prod", None, {}, tmp_path) == Place(None, None, "prod", embedded=False)
    assert locate(None, "eu-west-1", {}, tmp_path) == Place(None, "eu-west-1", None, embedded=False)


def test_an_endpoint_in_the_environment_means_what_it_names(tmp_path: Path) -> None:
    up(tmp_path)
    here = {"AWS_ENDPOINT_URL": "http://localhost:4566"}
    assert locate(None, None, here, tmp_path) == Place("http://localhost:4566", "us-east-1", None, embedded=True)
    assert locate(None, None, here | {"AWS_REGION": "eu-west-1"}, tmp_path).region == "eu-west-1"
    elsewhere = {"AWS_ENDPOINT_URL": "https://aws.example.com"}
    assert locate(None, None, elsewhere, tmp_path) == Place("https://aws.example.com", None, None, embedded=False)


def test_an_account_without_a_stack_says_how_to_get_one(bare: World) -> None:
    done = bare.run("status")
    assert done.exit_code == 3
    assert done.stderr == (
        "longhaul: no stack Longhaul on us-east-1: deploy it with `make deploy`, or give --region, --profile or --stack\n"
    )


def test_of_two_stacks_with_other_names_one_has_to_be_named(bare: World) -> None:
    bare.deploy("Blue")
    bare.deploy("Green")
    bare.deploy("Website", description="not ours")
    done = bare.run("status")
    assert (done.exit_code, "there is Blue, Green: name one with --stack" in done.stderr) == (3, True)
    assert bare.run("status", "--stack", "Green").exit_code == 0


def test_a_stack_that_is_none_of_ours_or_of_another_version_is_said_to_be(bare: World) -> None:
    bare.deploy("Website", outputs={}, status="ROLLBACK_COMPLETE")
    assert "has no output JobsQueueUrl" in bare.run("status", "--stack", "Website").stderr
    bare.deploy()
    bare.aws.lambda_.functions["Longhaul-Dispatcher"] = {VARIABLE: '{"from": "the future"}'}
    done = bare.run("status")
    assert (done.exit_code, "was deployed by another version of Longhaul" in done.stderr) == (1, True)
    bare.aws.lambda_.functions["Longhaul-Dispatcher"] = {}
    assert "deploy it again" in bare.run("status").stderr


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (exceptions.NoCredentialsError(), "no AWS credentials, and no embedded AWS runs: set AWS_PROFILE"),
        (exceptions.PartialCredentialsError(provider="env", cred_var="AWS_SECRET_ACCESS_KEY"), "are incomplete"),
        (exceptions.ProfileNotFound(profile="prod"), "aws configure list-profiles"),
        (exceptions.NoRegionError(), "no AWS region: give --region"),
        (exceptions.UnauthorizedSSOTokenError(), "aws sso login"),
        (exceptions.EndpointConnectionError(endpoint_url="http://127.0.0.1:1"), "nobody answers at http://127.0.0.1:1"),
        (exceptions.ReadTimeoutError(endpoint_url="https://sqs"), "the connection to AWS broke"),
        (client_error("ExpiredToken", "x", "GetItem"), "the AWS credentials have expired"),
        (client_error("InvalidClientTokenId", "x", "GetItem"), "AWS does not know these credentials"),
        (client_error("AccessDeniedException", "you may not", "GetItem"), "not allowed: GetItem: you may not"),
        (
            client_error("AWS.SimpleQueueService.NonExistentQueue", "gone", "SendMessage"),
            "a part of the stack is missing",
        ),
        (client_error("ThrottlingException", "x", "GetItem"), "AWS is busy (GetItem: ThrottlingException)"),
        (client_error("Strange", "words", "GetItem"), "AWS refused GetItem: Strange: words"),
    ],
    ids=lambda each: type(each).__name__,
)
def test_what_aws_says_becomes_a_sentence(world: World, error: Exception, said: str) -> None:
    def refuse(_call: Call, _proceed: Proceed) -> dict[str, Any]:
        raise error

    world.aws.gate.around = refuse
    commands: list[tuple[str, ...]] = [
        ("status",),
        ("submit", "--job", "sql"),
        ("dlq", "list"),
        ("logs", "x"),
        ("cancel", "x"),
        ("doctor",),
    ]
    for command in commands:
        done = world.run(*command)
        assert done.exit_code == ExitCode.UNREACHABLE, command
        assert done.stdout == ""
        assert said in done.stderr
        assert "Traceback" not in done.stderr
    assert isinstance(error, ClientError) or said in str(translated(error))


def test_no_region_is_said_before_anything_is_asked(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boto3, "Session", lambda **_: Session(world.aws, region_name=None))
    done = world.run("status")
    assert (done.exit_code, "no AWS region" in done.stderr) == (4, True)


def test_a_real_session_of_the_embedded_aws_uses_no_credentials_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:

    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "precious")
    target = Target(Place("http://127.0.0.1:1", "us-east-1", None, embedded=True), None)
    credentials = target.session.get_credentials()
    assert credentials is not None
    assert credentials.access_key == "local"
    assert target.client("sqs").meta.endpoint_url == "http://127.0.0.1:1"
