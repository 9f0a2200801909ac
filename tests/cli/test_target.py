import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import boto3
import psutil
import pytest
from botocore import exceptions
from botocore.exceptions import ClientError

from longhaul.cli.errors import ExitStatus
from longhaul.cli.place import Place, locate
from longhaul.cli.sentences import translated
from longhaul.cli.target import Target
from longhaul.local import running
from simulation.aws.service import Call, Proceed, client_error
from tests.cli.conftest import Session, World


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


def test_a_running_embedded_aws_is_found(tmp_path: Path) -> None:
    running.announce(tmp_path, endpoint="http://127.0.0.1:1", region="us-east-1", stack="Longhaul")
    assert locate(None, None, {}, tmp_path) == Place(
        "http://127.0.0.1:1", "us-east-1", None, embedded=True
    )
    running.withdraw(tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert locate(None, None, {}, tmp_path) == Place(None, None, None, embedded=False)


@pytest.mark.parametrize(
    "changes", [{"pid": 2**22 + 1}, {"started": 1.0}, {"colour": "red"}], ids=str
)
def test_files_left_by_a_crash_or_another_version_are_ignored(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    up(tmp_path, **changes)
    assert not locate(None, None, {}, tmp_path).embedded
    (tmp_path / running.FILE).write_text("{half")
    assert not locate(None, None, {}, tmp_path).embedded


def test_an_announcement_of_another_process_is_kept(tmp_path: Path) -> None:
    up(tmp_path, pid=os.getppid())
    running.withdraw(tmp_path)
    assert (tmp_path / running.FILE).exists()


def test_a_profile_or_a_region_means_aws_even_if_an_embedded_one_runs(tmp_path: Path) -> None:
    up(tmp_path)
    assert locate("prod", None, {}, tmp_path) == Place(None, None, "prod", embedded=False)
    assert locate(None, "eu-west-1", {}, tmp_path) == Place(None, "eu-west-1", None, embedded=False)


def test_an_endpoint_in_the_environment_is_used(tmp_path: Path) -> None:
    up(tmp_path)
    here = {"AWS_ENDPOINT_URL": "http://localhost:4566"}
    assert locate(None, None, here, tmp_path) == Place(
        "http://localhost:4566", "us-east-1", None, embedded=True
    )
    assert locate(None, None, here | {"AWS_REGION": "eu-west-1"}, tmp_path).region == "eu-west-1"
    elsewhere = {"AWS_ENDPOINT_URL": "https://aws.example.com"}
    assert locate(None, None, elsewhere, tmp_path) == Place(
        "https://aws.example.com", None, None, embedded=False
    )


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], dict[str, str]]:
    """Writes the configuration file of AWS's SDKs. Returns the variables that name it."""
    files = {
        "AWS_CONFIG_FILE": str(tmp_path / "config"),
        "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "credentials"),
    }
    for name in list(os.environ):
        if name.startswith("AWS_"):
            monkeypatch.delenv(name)
    for name, value in (files | {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x"}).items():
        monkeypatch.setenv(name, value)

    def write(text: str) -> dict[str, str]:
        (tmp_path / "config").write_text(text)
        return files

    return write


LAB = "http://lab.example:4566"
ELSEWHERE = "http://elsewhere.example"


def spoken_to(place: Place) -> str:
    """The host that clients of the place speak to."""
    host: str = Target(place, None).client("sqs").meta.endpoint_url
    return host


@pytest.mark.parametrize("variable", ["AWS_REGION", "AWS_DEFAULT_REGION"])
def test_the_region_of_the_environment_is_used(
    tmp_path: Path, config: Callable[[str], dict[str, str]], variable: str
) -> None:
    files = config("[profile prod]\nregion = us-west-2\n")
    place = locate(None, None, files | {variable: "eu-west-1"}, tmp_path)
    assert str(Target(place, None)) == "stack Longhaul on AWS, eu-west-1"
    both = files | {"AWS_DEFAULT_REGION": "us-east-2", "AWS_REGION": "eu-west-1"}
    assert locate(None, None, both, tmp_path).region == "eu-west-1"
    assert locate(None, "sa-east-1", both, tmp_path).region == "sa-east-1"
    # As in AWS's own command line: a variable counts more than a profile's region.
    assert locate("prod", None, both, tmp_path).region == "eu-west-1"
    assert Target(locate("prod", None, files, tmp_path), None).region == "us-west-2"


def test_the_endpoint_of_a_profile_is_used_and_announced(
    tmp_path: Path,
    config: Callable[[str], dict[str, str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    files = config(
        f"[profile lab]\nregion = eu-west-1\nendpoint_url = {LAB}\n"
        "[profile here]\nregion = eu-west-1\nendpoint_url = http://localhost:4566\n"
    )
    place = locate("lab", None, files, tmp_path)
    assert str(Target(place, None)) == f"stack Longhaul on {LAB}, eu-west-1, profile lab"
    assert spoken_to(place) == LAB
    # With the credentials of the profile, not fake ones.
    assert not locate("here", None, files, tmp_path).embedded
    over = locate("lab", None, files | {"AWS_ENDPOINT_URL": ELSEWHERE}, tmp_path)
    assert (over.endpoint, spoken_to(over)) == (ELSEWHERE, ELSEWHERE)
    monkeypatch.setenv("AWS_PROFILE", "lab")
    place = locate(None, None, files, tmp_path)
    assert str(Target(place, None)) == f"stack Longhaul on {LAB}, eu-west-1"
    assert spoken_to(place) == LAB


def test_a_profile_that_does_not_exist_is_an_error_with_a_way_out(
    tmp_path: Path, config: Callable[[str], dict[str, str]]
) -> None:
    place = locate("prod", None, config(""), tmp_path)
    with pytest.raises(exceptions.ProfileNotFound):
        Target(place, None)


def test_an_account_without_a_stack_is_told_how_to_deploy_one(bare: World) -> None:
    assert bare.run("status", code=3).stderr == (
        "longhaul: no stack Longhaul on us-east-1: deploy it with `longhaul deploy`, "
        "or give --region, --profile or --stack\n"
    )


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (exceptions.NoCredentialsError(), "Unable to locate credentials; set AWS_PROFILE"),
        (exceptions.NoRegionError(), "or use the embedded AWS: `longhaul up`"),
        (exceptions.ProfileNotFound(profile="prod"), "aws configure list-profiles"),
        (exceptions.UnauthorizedSSOTokenError(), "aws sso login"),
        (exceptions.LoginRefreshRequired(), "reauthenticate using 'aws login'"),
        (
            exceptions.EndpointConnectionError(endpoint_url="http://127.0.0.1:1"),
            'connect to the endpoint URL: "http://127.0.0.1:1"; is the region right',
        ),
        (exceptions.ReadTimeoutError(endpoint_url="https://sqs"), "the connection broke"),
        (client_error("ExpiredToken", "x", "GetItem"), "AWS does not take these credentials"),
        (
            client_error("AccessDeniedException", "you may not", "GetItem"),
            "not allowed: GetItem: you may not",
        ),
        (
            client_error("AWS.SimpleQueueService.NonExistentQueue", "gone", "SendMessage"),
            "a part of the stack is missing",
        ),
        (
            client_error("ThrottlingException", "x", "GetItem"),
            "AWS is busy (GetItem: ThrottlingException)",
        ),
        (client_error("Strange", "words", "GetItem"), "AWS refused GetItem: Strange: words"),
    ],
    ids=lambda each: type(each).__name__,
)
def test_an_error_of_aws_becomes_a_sentence(world: World, error: Exception, said: str) -> None:
    def refuse(_call: Call, _proceed: Proceed) -> dict[str, Any]:
        raise error

    world.aws.gate.around = refuse
    for command in (("status",), ("submit", "--job", "sql"), ("check",)):
        done = world.run(*command, code=ExitStatus.UNREACHABLE, says=said)
        assert done.stdout == ""
        assert "Traceback" not in done.stderr
    assert isinstance(error, ClientError) or said in str(translated(error))


def test_a_missing_region_is_reported_before_any_call(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(boto3, "Session", lambda **_: Session(world.aws, region_name=None))
    world.run("status", code=4, says="must specify a region")


def test_a_real_session_of_the_embedded_aws_does_not_use_the_users_credentials(
    monkeypatch: pytest.MonkeyPatch,
) -> None:

    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "precious")
    target = Target(Place("http://127.0.0.1:1", "us-east-1", None, embedded=True), None)
    credentials = target.session.get_credentials()
    assert credentials is not None
    assert credentials.access_key == "local"
    assert target.client("sqs").meta.endpoint_url == "http://127.0.0.1:1"
