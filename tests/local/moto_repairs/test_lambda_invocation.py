import io
import zipfile
from typing import Any

import pytest
from moto.awslambda.models import LambdaFunction

from tests.local.support import Moto


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


def test_stock_moto_asks_docker(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        LambdaFunction,
        "_invoke_lambda",
        lambda _function, event: ("Docker's result", False, str(event)),
    )

    assert client.invoke(FunctionName="f", Payload=b"{}")["Payload"].read() == b"Docker's result"
