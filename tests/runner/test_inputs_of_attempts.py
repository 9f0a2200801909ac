"""The inputs of an attempt: there when its job begins, or the end of the attempt."""

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from longhaul.core.verdict import ExitCode
from longhaul.job import Params, PermanentJobError
from longhaul.runner.io.staged import StagedInput
from longhaul.runner.io.work_area import DiskArea
from longhaul.runner.running_job import RunningJob
from longhaul.runner.script import ScriptParams, run_script
from tests.builders import BUCKET
from tests.runner.attempts import Instead
from tests.runner.conftest import Cloud, MakeAttempt

LARGE = "raw/large.txt"


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
    make_plain_attempt: MakeAttempt,
    tmp_path: Path,
    error: Callable[[], Exception],
    exit_code: ExitCode,
    text: str,
) -> None:
    def get_object(**given: Any) -> Any:
        if given["Key"] == LARGE:
            raise error()
        return cloud.s3.get_object(**given)

    cloud.s3.put_object(Bucket=BUCKET, Key=LARGE, Body=b"large, and more")
    cloud.claim(inputs={"large": f"s3://{BUCKET}/{LARGE}"}, output=f"s3://{BUCKET}/counts/")
    s3: Any = Instead(cloud.s3, get_object=get_object)
    area = DiskArea(s3, tmp_path / "scratch", {})

    attempt = make_plain_attempt(lambda _: pytest.fail("the job begins"), s3=s3, area=area)
    assert attempt.run() is exit_code

    assert text in cloud.result().error


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
