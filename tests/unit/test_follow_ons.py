"""The jobs that a success leads to."""

import json
from dataclasses import replace
from typing import Any

import pytest

from longhaul.core.descent import MAX_GROUP, Group, Lineage, child_id
from longhaul.core.lease import CommittedOutput, Lease
from longhaul.core.policy import parse_request
from longhaul.core.request import read_request
from longhaul.core.settings import FollowOnSettings, RuntimeSettings
from longhaul.pipelines.follow_ons import (
    FollowOn,
    Join,
    body_at_most,
    follow_ons,
    joined,
    with_output,
    with_stored,
)
from tests.builders import BUCKET, changed, running, settings, stage

STAGES = (
    stage(name="months", next=("clean",)),
    stage(name="clean", next=("delays",), job="flights_clean"),
    stage(name="delays", job="daily_delays", join=True, next=("report",)),
    stage(name="report", job="sql"),
)
PIPELINE = settings(stages=STAGES)


def succeeded(stage_name: str, job_id: str = "2013", **changes: Any) -> Lease:
    key = f"{stage_name}#{job_id}"
    output = CommittedOutput(1, 1, 10, prefix=f"s3://{BUCKET}/out/{stage_name}/")
    return changed(running(), key=key, stage=stage_name, output=output, **changes)


def member(n: int, size: int = 3) -> Lease:
    """Job `n` of those that `months#2013` emitted."""
    group = Group(of="months#2013", run=5, n=n, size=size)
    lineage = Lineage(root="months#2013", parent="months#2013", groups=(group,))
    return succeeded("clean", f"2013-{n}", lineage=lineage)


JOIN = Join(
    "delays", "months#2013", Lineage(root="months#2013", parent="months#2013", seal="s"), "clean"
)


def follow_ons_of(
    lease: Lease, emitted: Any = None, known: RuntimeSettings = PIPELINE
) -> list[Any]:
    return list(follow_ons(lease, emitted, known))


def test_output_is_the_input_of_the_next_stage_when_nothing_is_emitted() -> None:
    (follow_on,) = follow_ons_of(succeeded("months"))
    request = parse_request(follow_on.body, PIPELINE, PIPELINE.stage("clean"))
    assert follow_on.stage == "clean"
    assert request.inputs == {"months": f"s3://{BUCKET}/out/months/"}
    assert request.output == f"s3://{BUCKET}/stages/clean/{request.job_id}/"
    assert request.lineage == Lineage(
        root="months#2013", parent="months#2013", run=succeeded("months").run
    )


def test_what_follows_is_called_as_its_parent_unless_it_says_otherwise() -> None:
    parent = succeeded("months", label="October", tags={"month": "10", "by": "ops"})
    own = {"job": "sql", "label": "2026-10-07", "tags": {"by": "me", "day": "07"}}

    (passed_on,) = follow_ons_of(parent)
    named, unnamed = follow_ons_of(parent, {"clean": [own, {"job": "sql"}]})

    bodies = [read_request(each.body) for each in (passed_on, named, unnamed)]
    assert [each.label for each in bodies] == ["October", "2026-10-07", "October"]
    assert [each.tags for each in bodies] == [
        {"month": "10", "by": "ops"},
        {"month": "10", "by": "me", "day": "07"},
        {"month": "10", "by": "ops"},
    ]


def test_tags_of_a_parent_that_are_too_many_are_left_out() -> None:
    parent = succeeded("months", tags={"long": "x" * 100, "short": "x"})
    full = {f"own{n}": "y" * 90 for n in range(5)}  # 470 bytes
    many = {f"own{n}": "y" for n in range(10)}

    first, second = follow_ons_of(parent, {"clean": [{"tags": full}, {"tags": many}]})

    assert read_request(first.body).tags == {**full, "short": "x"}
    assert read_request(second.body).tags == many


def test_a_join_is_called_as_the_job_that_it_belongs_to() -> None:
    opener = succeeded("months", label="October", tags={"month": "10"})

    job = joined(JOIN, [f"s3://{BUCKET}/a/"], opener, PIPELINE).job

    request = read_request(job.body)
    assert (request.label, request.tags) == ("October", {"month": "10"})


def test_emitted_requests_form_a_group() -> None:
    requests = [
        {"inputs": {"flights": f"s3://{BUCKET}/raw/{n}.csv"}, "output": f"s3://{BUCKET}/{n}/"}
        for n in (1, 2)
    ]
    found = follow_ons_of(succeeded("months", run=5), {"clean": requests})
    sent = [parse_request(each.body, PIPELINE, PIPELINE.stage("clean")) for each in found]
    assert [request.output for request in sent] == [f"s3://{BUCKET}/1/", f"s3://{BUCKET}/2/"]
    assert [request.lineage.groups for request in sent if request.lineage] == [
        (Group(of="months#2013", run=5, n=n, size=2),) for n in (0, 1)
    ]
    assert len({request.job_id for request in sent}) == 2


def test_repetition_sends_the_same_jobs_and_another_run_sends_others() -> None:
    emitted = {"clean": [{"inputs": {}}]}
    assert follow_ons_of(succeeded("months"), emitted) == follow_ons_of(
        succeeded("months", attempt=2), emitted
    )
    assert follow_ons_of(succeeded("months"), emitted) != follow_ons_of(
        succeeded("months", run=6), emitted
    )


def test_join_starts_one_job_with_every_output_in_order() -> None:
    outputs = [f"s3://longhaul-data/{n}/" for n in (2, 0, 1)]
    sent = joined(JOIN, outputs, None, PIPELINE)
    request = parse_request(sent.job.body, PIPELINE, PIPELINE.stage("delays"))
    assert list(sent.inputs.items()) == [(f"clean_{n:05}", outputs[n]) for n in range(3)]
    assert with_stored(request, sent.inputs).inputs == sent.inputs
    assert request.lineage == JOIN.lineage.model_copy(update={"inputs_ref": sent.inputs_ref})


def test_output_to_which_several_members_added_is_one_input_of_the_join() -> None:
    table, prefix = "table://longhaul/flights", "s3://longhaul-data/2/"

    sent = joined(JOIN, [table, table, prefix, table], None, PIPELINE)

    assert sent.inputs == {"clean_00000": table, "clean_00002": prefix}


def test_what_follows_writes_to_the_table_of_its_stage_unless_it_names_an_output() -> None:
    table = FollowOnSettings(output="table://longhaul/flights")
    stages = tuple(
        stage.model_copy(update={"follow_on": table}) if stage.name == "clean" else stage
        for stage in PIPELINE.stages
    )
    pipeline = PIPELINE.model_copy(update={"stages": stages})
    own = {"output": f"s3://{BUCKET}/1/"}

    (once,) = follow_ons_of(succeeded("months"), known=pipeline)
    found = follow_ons_of(succeeded("months"), {"clean": [{"inputs": {}}, own]}, pipeline)

    bodies = [json.loads(each.body) for each in (once, *found)]
    assert [(body["output"], body.get("mode")) for body in bodies] == [
        ("table://longhaul/flights", "append"),
        ("table://longhaul/flights", "append"),
        (f"s3://{BUCKET}/1/", None),
    ]


def test_join_of_the_largest_group_with_the_longest_outputs_fits_into_a_message() -> None:
    long = [f"s3://longhaul-data/{'x' * 700}/{n}/" for n in range(MAX_GROUP)]
    assert len(joined(JOIN, long, None, PIPELINE).job.body) < 2_000


def test_last_stage_has_no_follow_ons() -> None:
    assert follow_ons_of(succeeded("report")) == []


@pytest.mark.parametrize("root", ["a/./b", "longhaul/x", "a//", "x" * 128, "2013.."])
def test_follow_on_is_a_valid_request_for_any_job_id_of_the_root(root: str) -> None:
    (follow_on,) = follow_ons_of(succeeded("months", root))
    assert isinstance(follow_on, FollowOn)
    assert parse_request(follow_on.body, PIPELINE, PIPELINE.stage("clean")).job_id


def test_largest_body_of_an_emitted_job_has_the_largest_place_in_a_group() -> None:
    lease = changed(member(1), output=None)  # it emits while it runs
    request = {"inputs": {"flights": f"s3://{BUCKET}/raw/1.csv"}}

    body = body_at_most(lease, STAGES[1], request, PIPELINE)

    lineage = read_request(body).lineage
    assert lineage is not None
    assert (lineage.groups[-1].n, lineage.groups[-1].size) == (MAX_GROUP, MAX_GROUP)
    assert [group.of for group in lineage.groups] == ["months#2013", lease.key]
    assert ": " not in body


def test_follow_on_carries_the_seal_of_its_parents_output() -> None:
    parent = succeeded("months")
    assert parent.attempt.output is not None
    sealed = changed(parent, output=replace(parent.attempt.output, seal="secret"))

    for emitted in (None, {"clean": [{}]}):
        (sent,) = follow_ons_of(sealed, emitted)
        lineage = json.loads(sent.body)["lineage"]
        assert lineage["seal"] == "secret"


def test_ids_of_follow_ons_are_those_that_their_parents_row_proves() -> None:
    parent = succeeded("months")
    (alone,) = follow_ons_of(parent)
    assert read_request(alone.body).job_id == child_id(parent.key, "clean", parent.key, 0)
    start = joined(JOIN, ["s3://b/0/"], None, PIPELINE)
    assert read_request(start.job.body).job_id == child_id(
        "months#2013", "delays", "months#2013", "join"
    )


def test_what_a_member_emits_is_in_its_group_and_in_one_more() -> None:
    stages = (*STAGES[:1], stage(name="clean", next=("parts",)), stage(name="parts"))

    (sent,) = follow_ons_of(member(1), {"parts": [{}]}, settings(stages=stages))

    lineage = read_request(sent.body).lineage
    assert lineage is not None
    assert [(group.of, group.n) for group in lineage.groups] == [
        ("months#2013", 1),
        ("clean#2013-1", 0),
    ]
    assert "null" not in sent.body


def test_stage_that_a_job_did_not_name_gets_nothing_and_no_join_behind_it_starts() -> None:
    stages = (
        stage(name="months", next=("clean", "other")),
        *STAGES[1:],
        stage(name="other", next=("end",)),
        stage(name="end", join=True),
    )

    found = follow_ons_of(succeeded("months"), {"clean": [{}]}, settings(stages=stages))

    assert [each.stage for each in found] == ["clean"]


def test_a_request_without_an_output_gets_its_stages() -> None:
    table = stage(follow_on={"output": "table://longhaul/flights"})
    assert with_output(table, "j", {"job": "sql"}, PIPELINE) == {
        "job": "sql",
        "output": "table://longhaul/flights",
        "mode": "append",
    }
    own = {"job": "sql", "output": "s3://b/x/"}
    assert with_output(table, "j", own, PIPELINE) == own
