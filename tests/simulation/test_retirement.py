"""Stages that are retired while jobs run, and brought back."""

from simulation.worlds.plan import Act, Job, Plan
from simulation.worlds.run import run_world


def test_what_would_have_followed_into_a_retired_stage_is_not_asked_for_once_it_is_back() -> None:
    """The job succeeds while no stage follows its own."""
    plan = Plan(
        clean_slots=2,
        jobs=(Job("j0", work_s=1_900.0, files=1),),
        acts=(
            Act(0.0, "submit", "j0"),
            Act(493.8, "retire", for_s=1_800.0, service="clean"),
        ),
        faults=(),
    )
    assert run_world(plan) is None


def test_an_attempt_that_is_refused_is_the_last_one_of_a_stage_that_was_taken_out() -> None:
    plan = Plan(
        jobs=(Job("j0", work_s=9.0, files=1),),
        acts=(
            Act(0.6, "outage", for_s=2_848.0, service="rights"),
            Act(199.6, "submit", "j0"),
            Act(201.5, "retire", work=1, service="main"),
        ),
        faults=(),
    )
    assert run_world(plan) is None
