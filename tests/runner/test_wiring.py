"""Each client of a runner goes to the endpoint that the settings name, if they name one."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import boto3
import pytest

from longhaul.core.background import Threads
from longhaul.core.lease import AttemptId
from longhaul.core.settings import PathPolicy
from longhaul.runner.io.work_area import DiskArea
from longhaul.runner.stopping import Stop
from longhaul.runner.wiring import put_together, s3_client, tables_from
from tests import builders

if TYPE_CHECKING:
    from longhaul.runner.attempt import Spark
    from longhaul.runner.task import Task

ELSEWHERE = "http://127.0.0.1:9"


@pytest.mark.parametrize("endpoint", [ELSEWHERE, None])
def test_every_client_goes_to_the_settings_endpoint(
    endpoint: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[tuple[str, str | None]] = []
    real = boto3.client

    def client(service: str, **more: Any) -> object:
        made.append((service, more.get("endpoint_url")))
        return real(service, **more)  # type: ignore[call-overload]

    monkeypatch.setattr(boto3, "client", client)
    settings = builders.settings(
        endpoint_url=endpoint,
        paths=PathPolicy(data_bucket=builders.BUCKET, table_databases=("flights",)),
    )

    s3 = s3_client(settings)
    tables = tables_from(settings, s3)
    put_together(
        AttemptId("main#january", 1, 1),
        settings,
        s3,
        task=cast("Task", None),
        scratch=tmp_path,
        area=DiskArea(s3, tmp_path, {"tiny": 20}),
        spark=cast("Spark", None),
        stop=Stop(),
        background=Threads(),
        tables=tables,
    )
    assert tables is not None
    assert tables().catalog is not None

    assert {service for service, _ in made} == {"s3", "dynamodb", "glue"}
    assert {url for _, url in made} == {endpoint}
