"""A rollback: a newer version has written pending lists and manifests with fields of its own."""

import json
from pathlib import Path
from typing import Any

import pytest

from longhaul.core.lease import AttemptId
from longhaul.outputs.manifest import MANIFEST
from longhaul.outputs.pending import pending_ref
from longhaul.outputs.publisher import S3Publisher, read_manifest
from longhaul.runner.io.uploader import Uploader
from longhaul.runner.io.written import Dataset
from longhaul.runner.stopping import Stop
from simulation.aws.clock import VirtualClock
from tests.contract.conftest import Aws

BUCKET, PREFIX = "data", "out/flights/"
ATTEMPT = AttemptId("main#daily", 1767323045000, 1)


@pytest.fixture
def s3(aws: Aws) -> Any:
    client = aws.client("s3")
    client.create_bucket(Bucket=BUCKET)
    return client


@pytest.fixture(autouse=True)
def _output(s3: Any, tmp_path: Path) -> None:
    (tmp_path / "part-0.csv").write_bytes(b"rows")
    uploader = Uploader(s3, BUCKET, Stop(), begin=lambda _: None, advance=lambda _: None)
    uploader.send(uploader.plan(ATTEMPT, f"s3://{BUCKET}/{PREFIX}", [Dataset(".", tmp_path, 3)]))


def write_as_newer(s3: Any, key: str, *lists: str) -> None:
    """Add a field to the document, and to each entry of its lists."""
    document = json.loads(s3.get_object(Bucket=BUCKET, Key=key)["Body"].read())
    document["colour"] = "green"
    for name in lists:
        for entry in document[name]:
            entry["colour"] = "green"
    s3.put_object(Bucket=BUCKET, Key=key, Body=json.dumps(document).encode())


def test_output_is_published_from_a_newer_versions_list(s3: Any) -> None:
    write_as_newer(s3, pending_ref(ATTEMPT), "uploads")
    S3Publisher(s3, BUCKET, VirtualClock()).publish(ATTEMPT)

    manifest, _ = read_manifest(s3, BUCKET, PREFIX)
    assert manifest is not None
    assert manifest.attempt == 1


def test_uploads_in_a_newer_versions_list_are_aborted(s3: Any) -> None:
    write_as_newer(s3, pending_ref(ATTEMPT), "uploads")
    S3Publisher(s3, BUCKET, VirtualClock()).discard(ATTEMPT)

    assert "Uploads" not in s3.list_multipart_uploads(Bucket=BUCKET)


def test_manifest_of_a_newer_version_is_read(s3: Any) -> None:
    S3Publisher(s3, BUCKET, VirtualClock()).publish(ATTEMPT)
    write_as_newer(s3, PREFIX + MANIFEST, "files")

    manifest, _ = read_manifest(s3, BUCKET, PREFIX)
    assert manifest is not None
    assert [file.size for file in manifest.files] == [4]
