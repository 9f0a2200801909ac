"""Files that are no table: rows about them, and files made from them, in one output."""

import hashlib
import importlib
import io
import json
import sys
import wave
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from pyspark import cloudpickle

from longhaul.core.verdict import ExitCode
from longhaul.job import PermanentJobError
from longhaul.runner.io.written import S3Folder
from longhaul.testing import MakeJob
from tests.builders import BUCKET, settings
from tests.runner.conftest import Cloud, MakeAttempt


def tone(seconds: int, rate: int = 8_000) -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as audio:
        audio.setnchannels(1)
        audio.setsampwidth(2)
        audio.setframerate(rate)
        audio.writeframes(bytes(range(250)) * (seconds * rate * 2 // 250))
    return file.getvalue()


@pytest.fixture
def wav_previews(demo_jobs: None) -> Iterator[ModuleType]:  # noqa: ARG001 - where it is
    module = importlib.import_module("wav_previews")
    # Spark's Python workers were started without that path.
    modules = (module, sys.modules["_wav"])
    for each in modules:
        cloudpickle.register_pickle_by_value(each)
    yield module
    for each in modules:
        cloudpickle.unregister_pickle_by_value(each)
        del sys.modules[each.__name__]


@pytest.mark.usefixtures("wav_previews")
@pytest.mark.parametrize("job", ["wav_previews", "wav_previews_plain"])
def test_rows_and_previews_are_published_by_one_commit(
    cloud: Cloud, request: pytest.FixtureRequest, job: str
) -> None:
    kind = "make_plain_attempt" if "plain" in job else "make_attempt"
    make: MakeAttempt = request.getfixturevalue(kind)
    whole, broken = tone(3), b"RIFF no audio"
    for name, content in (("a long call #1?%41.wav", whole), ("broken.wav", broken)):
        cloud.s3.put_object(Bucket=BUCKET, Key=f"calls/{name}", Body=content)
    cloud.claim(
        job=job,
        inputs={"audio": f"s3://{BUCKET}/calls/"},
        output=f"s3://{BUCKET}/previews/",
        params={"preview_s": 1},
    )

    assert make(settings=settings(jobs=(job,))).run() is ExitCode.OK

    manifest = cloud.manifest("previews/")
    assert manifest.rows == {".": 2}

    def contents(dataset: str) -> list[bytes]:
        return [
            cloud.s3.get_object(Bucket=BUCKET, Key=f"previews/{file.path}")["Body"].read()
            for file in manifest.of_dataset(dataset)
        ]

    rows = [json.loads(line) for part in contents(".") for line in part.splitlines()]
    good, bad = sorted(rows, key=lambda row: row["file"])
    assert good == {
        "file": "a long call #1-%41.wav",  # as on the disk
        "bytes": len(whole),
        "sha256": hashlib.sha256(whole).hexdigest(),
        "channels": 1,
        "sample_rate": 8_000,
        "seconds": 3.0,
        "problem": None,
    }
    assert bad["file"] == "broken.wav"
    assert bad["problem"]
    (preview,) = contents("previews")
    assert preview == tone(1)
    assert good["sha256"] in manifest.of_dataset("previews")[0].path


def test_a_file_that_ends_within_its_data_is_told_apart(
    wav_previews: ModuleType, tmp_path: Path
) -> None:
    file = tmp_path / "00000-cut.wav"
    file.write_bytes(tone(1)[:30])

    facts = wav_previews.describe(file, tmp_path, 1)

    assert facts.problem == "the file ends too soon"
    assert list(tmp_path.iterdir()) == [file]


def test_a_cluster_has_no_folder_for_files(make_job: MakeJob) -> None:
    job = make_job({})
    job.output_folder = S3Folder(BUCKET, "longhaul/work/")
    with pytest.raises(PermanentJobError, match="another engine"):
        job.files()
