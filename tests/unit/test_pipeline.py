"""What stages lead to, what joins wait for, and what a success changes there."""

import re
from dataclasses import replace
from typing import Any

import pytest
from pydantic import ValidationError

from longhaul.config.rules import problems
from longhaul.config.settings import Settings
from longhaul.config.stages import StageDeployment
from longhaul.core.descent import Lineage
from longhaul.core.lease import CommittedOutput, Lease, State
from longhaul.core.request import read_request
from longhaul.core.settings import RuntimeSettings, Stage
from longhaul.pipelines.descent_check import is_child, is_noted
from longhaul.pipelines.follow_ons import follow_ons, groups_behind, joined, replaced, with_joins
from longhaul.pipelines.pipeline import Pipeline
from tests.builders import changed, running, settings, stage

BY_DATE = (
    stage(name="plan", next=("fetch",)),
    stage(name="fetch", next=("clean",)),
    stage(name="clean", next=("report",)),
    stage(name="report", join=True, opener="plan"),
)
"""`fetch` passes each date along, as one job that it emits."""

NESTED = (
    stage(name="years", next=("months",)),
    stage(name="months", next=("days",)),
    stage(name="days", next=("month",)),
    stage(name="month", join=True, opener="months", next=("year",)),
    stage(name="year", join=True, opener="years"),
)


def known(*stages: Stage) -> RuntimeSettings:
    return settings(stages=stages)


DATES = known(*BY_DATE)


def succeeded(name: str, job_id: str = "x", *, of: RuntimeSettings, **changes: Any) -> Lease:
    output = CommittedOutput(1, 1, 10, prefix=f"s3://data/{name}/{job_id}/", seal="s")
    row = changed(running(), key=f"{name}#{job_id}", stage=name, run=5, output=output, **changes)
    return with_joins(replace(row, state=State.SUCCEEDED), of)


def emitting(row: Lease, sizes: dict[str, int] | None) -> Lease:
    assert row.attempt.output is not None
    return changed(row, output=replace(row.attempt.output, emitted=sizes))


def led_to(parent: Lease, of: RuntimeSettings, emitted: Any = None) -> list[Lease]:
    """The rows of the jobs that follow from a success, as if they had succeeded too."""
    found = []
    for sent in follow_ons(parent, emitted, of):
        request = read_request(sent.body)
        assert request.lineage is not None
        assert request.job_id is not None
        sizes = emitted and {name: len(requests) for name, requests in emitted.items()}
        stage = of.stage(sent.stage)
        assert is_child(request.lineage, request.job_id, stage, emitting(parent, sizes))
        found.append(succeeded(sent.stage, request.job_id, of=of, lineage=request.lineage))
    return found


def test_join_without_a_name_belongs_to_the_nearest_stage_that_can_split() -> None:
    found = Pipeline(replaced_openers(NESTED, None))

    assert {join: found.opener(join) for join in found.joins} == {
        "month": "months",
        "year": "years",
    }


def replaced_openers(stages: tuple[Stage, ...], opener: str | None) -> tuple[Stage, ...]:
    return tuple(
        each.model_copy(update={"opener": opener}) if each.join else each for each in stages
    )


def test_join_of_what_nothing_splits_belongs_to_the_job_before_it() -> None:
    found = Pipeline((stage(name="clean", next=("report",)), stage(name="report", join=True)))

    assert found.opener("report") == "clean"


def test_what_leads_to_a_join_passes_its_opener_and_no_stage_behind_another_join() -> None:
    found = Pipeline(NESTED)

    leads = {join: [s.name for s in NESTED if found.leads(s.name, join)] for join in found.joins}

    assert leads == {
        "month": ["years", "months", "days"],
        "year": ["years", "months", "month"],
    }


def refused(*stages: dict[str, Any]) -> list[str]:
    """What is wrong with these stages."""
    deployed = [StageDeployment(**{"job": "sql", **each}) for each in stages]
    return [each.why for each in problems(Settings(stages=tuple(deployed)), ["sql"])]


LINE = (
    {"name": "plan", "next": ("fetch",)},
    {"name": "fetch", "next": ("clean",)},
    {"name": "clean", "next": ("report",)},
)


RETIRED = {"name": "clean", "next": ("report",), "advanced": {"retired": True}}


@pytest.mark.parametrize(
    ("stages", "opener"),
    [
        (LINE, "plan"),
        (LINE, "fetch"),
        (LINE, "clean"),
        (({"name": "plan"}, RETIRED), "plan"),  # it keeps its opener while one between is retired
    ],
)
def test_join_may_name_any_stage_that_leads_to_it(
    stages: tuple[dict[str, Any], ...], opener: str
) -> None:
    assert refused(*stages, {"name": "report", "join": opener}) == []


@pytest.mark.parametrize(
    ("stages", "problem"),
    [
        (
            (*LINE, {"name": "report", "join": True}),
            'fetch and plan can each split .* "join": "fetch" or "join": "plan"',
        ),
        (
            (*LINE, {"name": "report", "join": "plans"}),
            "'plans', which is no stage that leads to 'clean'",
        ),
        (
            (*LINE, {"name": "other"}, {"name": "report", "join": "other"}),
            "'other', which is no stage that leads to 'clean'.* name one that does: fetch, plan",
        ),
        (
            (
                {"name": "main", "next": ("plan", "clean")},
                *LINE,
                {"name": "report", "join": "plan"},
            ),
            "main leads to 'clean' without passing 'plan'",
        ),
        (
            (
                {"name": "a", "next": ("b",)},
                {"name": "b", "next": ("c",)},
                {"name": "c", "next": ("d",)},
                {"name": "d", "join": "a", "next": ("e",)},
                {"name": "e", "join": "b"},
            ),
            "'b', which is no stage that leads to 'd', .* but by another join",
        ),
    ],
    ids=["two", "no stage", "no way", "around", "crossed"],
)
def test_joins_whose_jobs_cannot_be_told_apart_are_refused(
    stages: tuple[dict[str, Any], ...], problem: str
) -> None:
    assert any(re.search(problem, each) for each in refused(*stages))


@pytest.mark.parametrize("opener", ["report", "after", "last"])
def test_retired_stage_does_not_hide_an_opener_behind_its_join(opener: str) -> None:
    stages = (
        RETIRED,
        {"name": "report", "join": opener, "next": ("after",)},
        {"name": "after", "next": ("last",)},
        {"name": "last"},
    )

    (why,) = refused(*stages)
    assert f"joins what descends from '{opener}'" in why


def test_name_of_an_opener_is_a_name_of_a_stage() -> None:
    with pytest.raises(ValidationError):
        StageDeployment(name="report", join="No Stage")


def test_run_opens_the_joins_of_its_stage_and_none_that_was_opened_before() -> None:
    plan = succeeded("plan", of=DATES)
    (fetch,) = led_to(plan, DATES)

    assert (plan.opens, fetch.opens) == (("report",), ())


def test_job_sent_behind_an_opener_opens_no_join() -> None:
    assert succeeded("clean", of=DATES).opens == ()
    assert [
        Pipeline(DATES.stages).not_opened_from(name) for name in ("plan", "clean", "report")
    ] == [
        [],
        ["report"],
        [],
    ]


def test_job_that_emits_one_opens_no_fan_out() -> None:
    plan = succeeded("plan", of=DATES)
    days = led_to(plan, DATES, {"fetch": [{}, {}]})
    cleaned = [each for day in days for each in led_to(day, DATES, {"clean": [{}]})]

    changes = [
        [(each.path, dict(each.by), each.output) for each in replaced(*of_job, DATES)]
        for of_job in [
            (plan, {"fetch": [{}, {}]}),
            (days[1], {"clean": [{}]}),
            (cleaned[1], None),
        ]
    ]

    place = (("fetch", 1), ("clean", 0))
    assert changes == [
        [((), {"fetch": 2}, None)],
        [((("fetch", 1),), {"clean": 1}, None)],
        [(place, {}, f"s3://data/clean/{cleaned[1].job_id}/")],
    ]
    assert {each.join.key for row in cleaned for each in replaced(row, None, DATES)} == {
        "join#report#plan#x"
    }


def test_job_of_an_inner_join_takes_the_place_of_its_opener_at_the_outer_one() -> None:
    of = known(*NESTED)
    years = succeeded("years", of=of)
    month = led_to(years, of, {"months": [{}, {}]})[1]

    inner, outer = sorted(replaced(month, {"days": []}, of), key=lambda each: each.join.stage)

    assert (inner.join.stage, inner.path, inner.by) == ("month", (), {})
    assert (outer.join.stage, outer.path, outer.by) == ("year", (("months", 1),), {"month": 1})
    start = joined(inner.join, [], month, of)
    request = read_request(start.job.body)
    assert request.lineage is not None
    assert request.lineage.groups == groups_behind(month)
    noted = inner.join.lineage
    assert is_noted(request.lineage, request.job_id or "", of.stage("month"), noted)
    row = succeeded("month", request.job_id or "", of=of, lineage=request.lineage)
    (last,) = replaced(row, None, of)
    assert last.path == (("months", 1), ("month", 0))
    assert last.output == f"s3://data/month/{request.job_id}/"


def test_job_that_emits_for_another_stage_alone_leaves_nothing_to_wait_for() -> None:
    stages = (
        stage(name="plan", next=("clean", "other")),
        stage(name="clean", next=("report",)),
        stage(name="report", join=True, opener="plan"),
        stage(name="other"),
    )
    of = known(*stages)

    (found,) = replaced(succeeded("plan", of=of), {"other": [{}]}, of)

    assert (found.path, found.by, found.output) == ((), {}, None)


def test_row_of_an_earlier_version_is_in_no_join_that_counts() -> None:
    old = replace(
        succeeded("clean", of=DATES),
        opens=(),
        lineage=Lineage(root="plan#x", parent="fetch#y"),
    )

    assert list(replaced(old, None, DATES)) == []
