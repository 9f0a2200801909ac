"""The client against the strict fakes, with the deployed stack of the command's tests."""

from typing import Any

import pytest

from longhaul.client import Client
from longhaul.core.lease import Lease
from longhaul.outputs.manifest import Manifest, ManifestFile
from tests.builders import BUCKET
from tests.cli.conftest import (  # noqa: F401 - fixtures
    Session,
    World,
    bare,
    ctrl_c_twice,
    world,
)


def publish(to: World, row: Lease, prefix: str, *files: ManifestFile) -> None:
    """The manifest that the attempt left at its output, below the bucket of the data."""
    manifest = Manifest(key=row.key, run=row.run, attempt=1, files=files).model_dump_json()
    to.aws.s3.put_object(Bucket=BUCKET, Key=f"{prefix}_SUCCESS", Body=manifest.encode())


def connected(to: World, stack: str = "Longhaul") -> Client:
    session: Any = Session(to.aws)
    return Client(stack, session=session)


@pytest.fixture
def client(world: World) -> Client:  # noqa: F811 - the fixture
    return connected(world)
