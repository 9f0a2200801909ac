"""SIGKILL to a process that publishes, at each of its steps.

No handler runs and no thread is awaited: the next attempt has only S3 and the row.
"""

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from longhaul.core.lease import AttemptId
from longhaul.outputs.publisher import S3Publisher, read_manifest
from longhaul.runner.io.uploader import Uploader
from longhaul.runner.io.written import Dataset
from longhaul.runner.stopping import Stop
from tests.builders import BUCKET
from tests.layers import ROOT
from tests.patience import DEADLINE_S
from tests.runner.conftest import Cloud

PREFIX = "out/"
OLD, NEW = [b"old 0", b"old 1"], [b"new 0", b"new 1", b"new 2"]

# Uploads a folder, commits and publishes it, as an attempt does. Kills itself at the n-th call of
# an operation.
PUBLISH = """
import os, random, signal, sys
from pathlib import Path
import boto3
from botocore.client import BaseClient
from longhaul.runner.io.uploader import Uploader
from longhaul.runner.io.written import Dataset
from longhaul.runner.stopping import Stop
from longhaul.core.clients import SystemClock
from longhaul.core.store.leases import DynamoLeases
from longhaul.core.store.records import Records
from longhaul.core import transitions
from longhaul.outputs.publisher import S3Publisher
from longhaul.core.lease import AttemptId

bucket, prefix, key, attempt, folder, operation, left, moment = sys.argv[1:]
left, stock = int(left), BaseClient._make_api_call

def call(self, name, arguments):
    global left
    left -= name == operation
    doomed = name == operation and left == 0
    if doomed and moment == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    answer = stock(self, name, arguments)
    if doomed:
        os.kill(os.getpid(), signal.SIGKILL)
    return answer

BaseClient._make_api_call = call
s3, clock = boto3.client("s3"), SystemClock()
leases = DynamoLeases(Records(boto3.client("dynamodb"), "leases", clock, random.Random(1)))
id_ = AttemptId(key, leases.load(key).run, int(attempt))
uploader = Uploader(s3, bucket, Stop(), begin=lambda _: None, advance=lambda _: None)
output = uploader.send(uploader.plan(id_, f"s3://{bucket}/{prefix}", [Dataset(".", Path(folder))]))
leases.report(transitions.commit(id_, output))
S3Publisher(s3, bucket).publish(id_)
"""


def publish_until_killed(
    endpoint: str, attempt: AttemptId, folder: Path, death: tuple[str, int, str]
) -> None:
    operation, nth, moment = death
    arguments = [
        BUCKET,
        PREFIX,
        attempt.key,
        str(attempt.attempt),
        str(folder),
        operation,
        str(nth),
        moment,
    ]
    done = subprocess.run(
        [sys.executable, "-c", PUBLISH, *arguments],
        cwd=ROOT,
        env=os.environ | {"AWS_ENDPOINT_URL": endpoint},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr


def publish(cloud: Cloud, attempt: AttemptId, folder: Path) -> None:
    """The same in this process, to its end."""
    uploader = Uploader(cloud.s3, BUCKET, Stop(), begin=lambda _: None, advance=lambda _: None)
    uploader.send(uploader.plan(attempt, f"s3://{BUCKET}/{PREFIX}", [Dataset(".", folder)]))
    S3Publisher(cloud.s3, BUCKET).publish(attempt)


def visible(cloud: Cloud) -> list[bytes]:
    manifest, _ = read_manifest(cloud.s3, BUCKET, PREFIX)
    files = manifest.files if manifest else ()
    return sorted(
        cloud.s3.get_object(Bucket=BUCKET, Key=PREFIX + file.path)["Body"].read() for file in files
    )


def fill(folder: Path, contents: list[bytes]) -> Path:
    folder.mkdir()
    for number, content in enumerate(contents):
        (folder / f"part-{number}.txt").write_bytes(content)
    return folder


# The list of uploads is put before and after the parts; the third PUT is the manifest.
@pytest.mark.parametrize(
    ("operation", "nth", "moment", "committed"),
    [
        ("PutObject", 1, "before", False),
        ("PutObject", 1, "after", False),
        ("UploadPart", 2, "after", False),
        ("PutObject", 2, "after", False),
        ("UpdateItem", 1, "before", False),
        ("UpdateItem", 1, "after", True),
        ("CompleteMultipartUpload", 2, "after", True),
        ("PutObject", 3, "before", True),
        ("PutObject", 3, "after", True),
        ("DeleteObjects", 1, "after", True),
    ],
)
def test_a_sigkill_leaves_the_old_or_the_new_output_and_the_next_attempt_completes_it(
    moto: str,
    remote: Cloud,
    tmp_path: Path,
    operation: str,
    nth: int,
    moment: str,
    *,
    committed: bool,
) -> None:
    first = remote.claim().id
    publish(remote, replace(first, key="main#older"), fill(tmp_path / "old", OLD))
    new = fill(tmp_path / "new", NEW)

    publish_until_killed(moto, first, new, (operation, nth, moment))

    assert visible(remote) in (OLD, NEW)
    found = remote.lease().attempt.output
    assert (found is not None) == committed
    if found is not None:
        S3Publisher(remote.s3, BUCKET).publish(first)
    else:
        S3Publisher(remote.s3, BUCKET).discard(first)
        publish(remote, replace(first, attempt=2), new)
    assert visible(remote) == NEW
    assert len(remote.objects(PREFIX)) == len(NEW) + 1
    # Killed before the first list, its uploads have no parts, and end by the bucket's lifecycle
    # rule.
    assert remote.pending_uploads() == [] or (operation, nth, moment) == ("PutObject", 1, "before")
