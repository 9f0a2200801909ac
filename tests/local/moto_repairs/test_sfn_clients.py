from typing import Any

import boto3
import pytest
from moto.stepfunctions.parser.asl.component.state.exec.state_task import lambda_eval_utils

from longhaul.local.credentials import ADMINISTRATOR
from longhaul.local.moto_repairs import sfn as sfn_repairs
from tests.local.support import Moto


def test_client_of_a_service_is_made_once(
    moto: Moto, monkeypatch: pytest.MonkeyPatch, *, repaired: bool
) -> None:
    if repaired:
        sfn_repairs.clients(moto.patches, moto.endpoint, lambda _: ADMINISTRATOR)
    made: list[str] = []
    stock_client: Any = boto3.client

    def client(service_name: str, **kwargs: Any) -> Any:
        made.append(service_name)
        return stock_client(service_name, **kwargs)

    monkeypatch.setattr(boto3, "client", client)
    make: Any = vars(lambda_eval_utils)["boto_client_for"]

    clients = [make(region="us-east-1", service="lambda") for _ in range(3)]

    assert len(made) == (1 if repaired else 3)
    assert clients[0].meta.endpoint_url == (
        moto.endpoint if repaired else moto.endpoint.replace("127.0.0.1", "localhost")
    )
