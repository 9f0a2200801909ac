"""Worlds with jobs on EMR Serverless: what it does to their job runs."""

import json
import random
from dataclasses import replace
from itertools import count

import pytest

from simulation.aws.template import Deployed, deployed
from simulation.worlds import world as world_module
from simulation.worlds.emr import EMR_WORLDS, with_emr
from simulation.worlds.generation import plan_of
from simulation.worlds.plan import EMR, Job, Plan
from simulation.worlds.run import run


def happened(name: str, *words: str) -> list[str]:
    """The lines of a world's history with one of the words, without their times."""
    lines: list[str] = []
    assert run(EMR_WORLDS[name], trace=lines.append).violation is None
    return [line.split(maxsplit=1)[1] for line in lines if any(word in line for word in words)]


def test_a_job_on_emr_serverless_runs_in_a_job_run_and_no_task() -> None:
    lines = happened("a job on EMR Serverless succeeds", "container ", "RunTask", "StartJobRun")

    assert lines == [
        "startJobRun@j0-1#1  emr-serverless.StartJobRun main#j0 1767323047002 1",
        "container began: driver@j0-1.1",
        "container over: driver@j0-1.1 SUCCESS (ok)",
    ]


def test_what_executors_wrote_is_copied_inside_s3_and_the_work_area_is_cleared() -> None:
    lines = happened("a job on EMR Serverless succeeds", "s3.UploadPart", "s3.DeleteObjects")

    assert len([line for line in lines if "driver@j0-1.1  s3.UploadPartCopy" in line]) == 2
    assert not [line for line in lines if "s3.UploadPart " in line]
    assert "driver@j0-1.1  s3.DeleteObjects" in lines


def test_a_repeated_start_gives_the_same_job_run() -> None:
    lines = happened("StartJobRun's answer is lost", "emr-serverless.StartJobRun", "container ")

    assert len([line for line in lines if "StartJobRun" in line]) == 2
    assert [line for line in lines if "began" in line] == ["container began: driver@j0-1.1"]


@pytest.mark.parametrize(
    "name", [name for name in EMR_WORLDS if name.startswith("the account's vCPU are in use")]
)
def test_a_full_quota_ends_no_job_however_often_it_finds_no_room(name: str) -> None:
    lines = happened(name, "container ", "last_class=not_placed")

    assert len([line for line in lines if "state=RELEASED" in line]) > 10
    assert lines[-1].endswith("SUCCESS (ok)")


@pytest.mark.parametrize(("seed", "state"), [(1, "CANCELLED"), (3, "FAILED")])
def test_a_job_run_may_end_by_itself_while_it_is_cancelled(seed: int, state: str) -> None:
    name = f"a job run ends while it is being cancelled ({seed})"
    lines = happened(name, "CancelJobRun", "container ")

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
    lines = happened("more jobs than the application has vCPU for", "! no vCPU", "container over")

    assert [line for line in lines if "no vCPU" in line]
    assert len([line for line in lines if line.endswith("SUCCESS (ok)")]) == 12


def test_jobs_of_about_one_world_in_ten_are_drawn_for_emr_serverless() -> None:
    plan = replace(
        Plan(),
        jobs=(
            *(Job(f"j{n}", parts=n % 2) for n in range(8)),
            Job("j8", size="tiny"),
            Job("j9", table="events"),
        ),
    )

    drawn = with_emr(random.Random(1), plan)
    engines = [job.engine for job in drawn.jobs]
    assert EMR in engines[0:8:2]
    assert EMR in engines[1:8:2]
    assert engines[8:] == ["", ""]


def test_worlds_that_the_draw_leaves_out_are_as_they_were() -> None:
    plan = next(each for each in map(plan_of, count(1)) if not each.has_emr)
    assert "engine" not in json.dumps(json.loads(plan.to_json()))
