"""Worlds with jobs on Lambda, and on EMR Serverless: what these do to what they run."""

# Jobs of the size `tiny`: what Lambda does to their invocations.

from dataclasses import replace

import pytest

from simulation.aws.template import Deployed, deployed
from simulation.worlds import world as world_module
from simulation.worlds.engines import EMR_WORLDS, TINY_WORLDS
from simulation.worlds.plan import Plan
from simulation.worlds.run import run
from tests.simulation.lines import happened, history


def containers(name: str) -> list[str]:
    return happened(TINY_WORLDS[name], "container ")


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("a tiny job succeeds", ["began: tiny@j0-1.1", "over: tiny@j0-1.1 ok"]),
        (
            "a tiny job's invocation runs twice",
            [
                "began: tiny@j0-1.1",
                "began: tiny@j0-1.2",
                "over: tiny@j0-1.1 ok",
                "over: tiny@j0-1.2 superseded",
            ],
        ),
        (
            "a tiny job runs out of memory",
            [
                "began: task@j0-2.1",
                "began: tiny@j0-1.1",
                "over: task@j0-2.1 EssentialContainerExited exit 0 (ok)",
                "over: tiny@j0-1.1 oom_killed",
            ],
        ),
    ],
)
def test_a_tiny_job_runs_in_invocations_and_as_a_task_once_its_memory_was_too_small(
    name: str, found: list[str]
) -> None:
    assert sorted(containers(name)) == [f"container {each}" for each in found]


def test_a_dead_job_that_is_sent_again_does_not_wait_until_its_invocation_must_have_ended() -> None:
    lines = history(TINY_WORLDS["a tiny job dies, and its correction runs at once"])
    (began,) = (line for line in lines if line.endswith("container began: tiny@j0-2.1"))
    assert began.split()[0].startswith("0:01:00")  # the second in which it is sent


def test_a_job_that_asks_for_more_time_than_lambda_has_is_a_task() -> None:
    assert containers("a tiny job asks for more time than Lambda has")[0] == (
        "container began: task@j0-1.1"
    )


def test_an_invocation_whose_execution_was_stopped_ends_itself_at_its_next_report() -> None:
    lines = containers("a tiny job's execution is stopped, and its invocation goes on")
    assert lines[:2] == [
        "container began: tiny@j0-1.1",
        "container over: tiny@j0-1.1 superseded",
    ]


def test_what_was_frozen_in_mid_report_goes_on_beside_the_next_attempt_and_writes_nothing() -> None:
    lines = happened(
        TINY_WORLDS["a tiny job's environment is frozen (4)"], "container ", "tiny@j0-1.1  dynamodb"
    )
    first = lines.index("container over: tiny@j0-1.1 stopped")
    later = lines[first + 1 :]

    assert later[0] == "container began: tiny@j0-2.1"
    written = [line for line in later if line.startswith("tiny@j0-1.1")]
    assert written
    assert all("refused" in line for line in written)
    assert later[-1] == "container over: tiny@j0-2.1 ok"


def test_lambda_without_room_ends_no_job_however_often_it_refuses() -> None:
    plan = TINY_WORLDS["Lambda has no room for a tiny job for hours"]
    lines = happened(plan, "container ", "last_class=not_placed")

    assert len([line for line in lines if "state=RELEASED" in line]) > 20
    assert [line for line in lines if "container over" in line] == [lines[-1]]
    assert lines[-1].endswith(" ok")


# On EMR Serverless: what it does to job runs.


def test_what_executors_wrote_is_copied_inside_s3_and_the_work_area_is_cleared() -> None:
    lines = happened(
        EMR_WORLDS["a job on EMR Serverless succeeds"], "s3.UploadPart", "s3.DeleteObjects"
    )

    assert len([line for line in lines if "driver@j0-1.1  s3.UploadPartCopy" in line]) == 2
    assert not [line for line in lines if "s3.UploadPart " in line]
    assert "driver@j0-1.1  s3.DeleteObjects" in lines


def test_a_repeated_start_gives_the_same_job_run() -> None:
    lines = happened(
        EMR_WORLDS["StartJobRun's answer is lost"], "emr-serverless.StartJobRun", "container "
    )

    assert len([line for line in lines if "StartJobRun" in line]) == 2
    assert [line for line in lines if "began" in line] == ["container began: driver@j0-1.1"]


@pytest.mark.parametrize(
    "name", [name for name in EMR_WORLDS if name.startswith("the account's vCPU are in use")]
)
def test_a_full_quota_ends_no_job_however_often_it_finds_no_room(name: str) -> None:
    lines = happened(EMR_WORLDS[name], "container ", "last_class=not_placed")

    assert len([line for line in lines if "state=RELEASED" in line]) > 10
    assert lines[-1].endswith("SUCCESS (ok)")


@pytest.mark.parametrize(("seed", "state"), [(1, "CANCELLED"), (3, "FAILED")])
def test_a_job_run_may_end_by_itself_while_it_is_cancelled(seed: int, state: str) -> None:
    name = f"a job run ends while it is being cancelled ({seed})"
    lines = happened(EMR_WORLDS[name], "CancelJobRun", "container ")

    cancelled = next(n for n, line in enumerate(lines) if "CancelJobRun" in line)
    # The driver has seen that its lease is gone.
    ended = lines.index(f"container over: driver@j0-1.1 {state} (superseded)")
    assert cancelled < ended


def test_a_job_run_that_does_not_name_the_region_ends_each_job(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def without_region(*, tiny: bool, emr: bool) -> Deployed:
        stack = deployed(tiny=tiny, emr=emr)
        name = "driverEnv.AWS_DEFAULT_REGION"
        assert name in stack.definition
        return replace(stack, definition=stack.definition.replace(name, "driverEnv.UNUSED"))

    monkeypatch.setattr(world_module, "deployed", without_region)
    lines: list[str] = []

    violation = run(EMR_WORLDS["a job on EMR Serverless succeeds"], trace=lines.append).violation

    assert violation is not None
    assert "main#j0 is dead (failed" in violation.text
    ended = [line for line in lines if "container over" in line]
    assert len(ended) == Plan().max_attempts
    assert all(line.endswith("FAILED (without a region)") for line in ended)


def test_drivers_that_share_too_few_vcpu_all_come_to_their_end() -> None:
    lines = happened(
        EMR_WORLDS["more jobs than the application has vCPU for"], "! no vCPU", "container over"
    )

    assert [line for line in lines if "no vCPU" in line]
    assert len([line for line in lines if line.endswith("SUCCESS (ok)")]) == 12
