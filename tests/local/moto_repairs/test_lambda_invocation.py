import io
import json
import zipfile
from typing import Any

import pytest
from moto.awslambda.models import LambdaFunction

from longhaul.local.moto_repairs import functions as functions_repairs
from tests.local.support import Moto


class Recorder:
    def __init__(self) -> None:
        self.later: list[bytes] = []

    def invoke(self, function: Any, payload: bytes) -> tuple[bytes, bool]:
        del function
        return (b'{"errorType": "Bad"}', True) if b"bad" in payload else (payload, False)

    def invoke_later(self, function: Any, payload: bytes) -> None:
        del function
        self.later.append(payload)


@pytest.fixture
def client(moto: Moto) -> Any:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("app.py", "")
    role = moto.client("iam").create_role(RoleName="any", AssumeRolePolicyDocument="{}")["Role"][
        "Arn"
    ]
    client = moto.client("lambda")
    client.create_function(
        FunctionName="f",
        Runtime="python3.13",
        Handler="app.f",
        Role=role,
        Code={"ZipFile": archive.getvalue()},
    )
    return client


@pytest.fixture
def recorder(moto: Moto) -> Recorder:
    made = Recorder()
    functions_repairs.invocation(moto.patches, made)
    return made


def test_stock_moto_asks_docker(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        LambdaFunction,
        "_invoke_lambda",
        lambda _function, event: ("Docker's result", False, str(event)),
    )

    assert client.invoke(FunctionName="f", Payload=b"{}")["Payload"].read() == b"Docker's result"


@pytest.mark.usefixtures("recorder")
def test_result_of_the_function_is_returned(client: Any) -> None:
    response = client.invoke(FunctionName="f", Payload=b'{"a": 1}')

    assert json.loads(response["Payload"].read()) == {"a": 1}
    assert "FunctionError" not in response


@pytest.mark.usefixtures("recorder")
def test_error_of_the_function_is_marked_unhandled(client: Any) -> None:
    response = client.invoke(FunctionName="f", Payload=b'"bad"')

    assert response["FunctionError"] == "Unhandled"
    assert json.loads(response["Payload"].read()) == {"errorType": "Bad"}


def test_asynchronous_invocation_returns_at_once_and_runs_later(
    client: Any, recorder: Recorder
) -> None:
    assert (
        client.invoke(FunctionName="f", InvocationType="Event", Payload=b"{}")["StatusCode"] == 202
    )
    assert recorder.later == [b"{}"]
