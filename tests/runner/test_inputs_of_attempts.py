"""The inputs of an attempt: there when its job begins, or the end of the attempt."""

import pickle
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from botocore.exceptions import ClientError

from longhaul.core.verdict import ExitCode
from longhaul.job import Job, Params, PermanentJobError
from longhaul.runner.io.staged import StagedInput
from longhaul.runner.io.work_area import DiskArea
from longhaul.runner.on_demand import SparkOnDemand
from longhaul.runner.running_job import RunningJob
from longhaul.runner.script import ScriptParams, run_script
from longhaul.runner.stopping import Stop
from tests.builders import BUCKET
from tests.runner.conftest import Cloud, MakeAttempt
from tests.runner.job_attempts import no_jvm, plain_job

LARGE = "raw/large.txt"


@dataclass
class RefusingS3:
    """An S3 that answers with an error in the place of an object."""

    s3: Any
    instead: dict[str, Callable[[], Exception]] = field(default_factory=dict)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.s3, name)

    def get_object(self, **given: Any) -> Any:
        if error := self.instead.get(given["Key"]):
            raise error()
        return self.s3.get_object(**given)


@pytest.fixture
def s3(cloud: Cloud) -> RefusingS3:
    cloud.s3.put_object(Bucket=BUCKET, Key=LARGE, Body=b"large, and more")
    return RefusingS3(cloud.s3)


Run = Callable[[Callable[[Job[Any]], object]], ExitCode]


@pytest.fixture
def run(cloud: Cloud, make_attempt: MakeAttempt, s3: RefusingS3, tmp_path: Path) -> Run:
    def run_(job: Callable[[Job[Any]], object]) -> ExitCode:
        cloud.claim(inputs={"large": f"s3://{BUCKET}/{LARGE}"}, output=f"s3://{BUCKET}/counts/")
        stop = Stop()
        return make_attempt(
            find_job=lambda *_: plain_job(job),
            spark=SparkOnDemand(no_jvm, stop),
            stop=stop,
            s3=s3,
            area=DiskArea(s3, tmp_path / "scratch", {}),  # type: ignore[arg-type]
        ).run()

    return run_


def refused(code: str) -> Callable[[], Exception]:
    answer: Any = {"Error": {"Code": code, "Message": "no"}, "ResponseMetadata": {}}
    return lambda: ClientError(answer, "GetObject")


@pytest.mark.parametrize(
    ("error", "exit_code", "text"),
    [
        (refused("AccessDenied"), ExitCode.FAILED, "An error occurred (AccessDenied)"),
        (refused("SlowDown"), ExitCode.INTERRUPTED, "(SlowDown)"),
        (refused("InvalidObjectState"), ExitCode.PERMANENT, f"s3://{BUCKET}/{LARGE} is archived"),
        (lambda: ConnectionResetError(104, "reset by peer"), ExitCode.INTERRUPTED, "reset by peer"),
        (lambda: OSError(28, "No space left on device"), ExitCode.OUT_OF_DISK, "No space left"),
    ],
)
def test_an_input_that_cannot_be_brought_is_the_end_before_the_job_begins(
    cloud: Cloud,
    run: Run,
    s3: RefusingS3,
    error: Callable[[], Exception],
    exit_code: ExitCode,
    text: str,
) -> None:
    s3.instead[LARGE] = error

    assert run(lambda _: pytest.fail("the job begins")) is exit_code

    assert text in cloud.result().error


def test_an_input_that_is_replaced_before_it_comes_is_listed_as_it_is_then(
    cloud: Cloud, run: Run, s3: RefusingS3
) -> None:
    def replaced() -> Exception:
        del s3.instead[LARGE]
        cloud.s3.put_object(Bucket=BUCKET, Key=LARGE, Body=b"others")
        return refused("PreconditionFailed")()

    s3.instead[LARGE] = replaced

    def job(job: Job[Any]) -> None:
        (file,) = Path(job.input("large")).iterdir()
        assert file.read_text() == "others"
        job.write(pa.table({"n": [1]}))

    assert run(job) is ExitCode.OK


def running(**parts: Any) -> RunningJob[Any]:
    usual: dict[str, Any] = {
        "params": Params(),
        "staged": {"a": StagedInput("a", 1, 1, frozenset(), "1")},
        "output_folder": Path(),
        "emitter": None,
        "saving": None,
    }
    return RunningJob(**usual | parts)


def test_the_inputs_of_a_job_are_values() -> None:
    a = running().inputs["a"]
    assert pickle.loads(pickle.dumps(a)) == a  # noqa: S301 - our own


def test_a_script_that_names_an_unknown_input_is_refused(tmp_path: Path) -> None:
    params = ScriptParams(argv=("{inputs.a}", "--with={inputs.b}"))
    with pytest.raises(PermanentJobError, match=r"argv: 'b' is no input .*; given: a"):
        run_script(tmp_path / "script.py", running(params=params))


def test_words_of_a_script_name_no_input_together(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import sys\nassert sys.argv[1:] == ['{inputs.a', 'b}']\n")
    params = ScriptParams(argv=("{inputs.a", "b}"))
    run_script(script, running(params=params, output_folder=tmp_path / "output"))
