"""What a success leads to."""

import json
from dataclasses import replace
from typing import Any

import pytest

from longhaul.domain.follow_ons import Arrival, FollowOn, Join, follow_ons, joined
from longhaul.domain.lease import CommittedOutput, Lease
from longhaul.domain.lineage import Group, Lineage
from longhaul.domain.request import parse_request
from longhaul.settings import RuntimeSettings
from tests.builders import BUCKET, running, settings, stage

STAGES = (
    stage(name="months", next=("clean",)),
    stage(name="clean", next=("delays",), job="flights_clean"),
    stage(name="delays", job="daily_delays", join=True, next=("report",)),
    stage(name="report", job="sql"),
)
PIPELINE = settings(stages=STAGES)


def succeeded(stage_name: str, job_id: str = "2013", **changes: Any) -> Lease:
    key = f"{stage_name}#{job_id}"
    output = CommittedOutput(1, "longhaul/pending/x.json", f"s3://{BUCKET}/out/{stage_name}/", 1, 10)
    return replace(running(), key=key, stage=stage_name, output=output, **changes)


def member(n: int, size: int = 3) -> Lease:
    """The `n`th of the jobs that `months#2013` emitted."""
    group = Group(of="months#2013", run=5, n=n, size=size)
    lineage = Lineage(root="months#2013", parent="months#2013", groups=(group,))
    return succeeded("clean", f"2013-{n}", lineage=lineage)


def led_to(lease: Lease, emitted: Any = None, known: RuntimeSettings = PIPELINE) -> list[Any]:
    return list(follow_ons(lease, emitted, known))


def test_without_emitting_the_output_is_the_next_stages_input() -> None:
    (follow_on,) = led_to(succeeded("months"))
    request = parse_request(follow_on.body, PIPELINE, PIPELINE.stage("clean"))
    assert follow_on.stage == "clean"
    assert request.inputs == {"months": f"s3://{BUCKET}/out/months/"}
    assert request.output == f"s3://{BUCKET}/stages/{request.job_id}/"
    assert request.lineage == Lineage(root="months#2013", parent="months#2013")


def test_what_was_emitted_makes_a_group() -> None:
    requests = [{"inputs": {"flights": f"s3://{BUCKET}/raw/{n}.csv"}, "output": f"s3://{BUCKET}/{n}/"} for n in (1, 2)]
    found = led_to(succeeded("months", run=5), {"clean": requests})
    sent = [parse_request(each.body, PIPELINE, PIPELINE.stage("clean")) for each in found]
    assert [request.output for request in sent] == [f"s3://{BUCKET}/1/", f"s3://{BUCKET}/2/"]
    assert [request.lineage.groups for request in sent if request.lineage] == [
        (Group(of="months#2013", run=5, n=n, size=2),) for n in (0, 1)
    ]
    assert len({request.job_id for request in sent}) == 2


def test_doing_it_again_sends_the_same_and_another_run_sends_other_jobs() -> None:
    emitted = {"clean": [{"inputs": {}}]}
    assert led_to(succeeded("months"), emitted) == led_to(succeeded("months", attempt=2), emitted)
    assert led_to(succeeded("months"), emitted) != led_to(succeeded("months", run=6), emitted)


def test_a_member_of_a_group_arrives_at_the_join_behind_it() -> None:
    (arrival,) = led_to(member(2))
    assert isinstance(arrival, Arrival)
    assert (arrival.join.stage, arrival.join.group.n, arrival.join.group.size) == ("delays", 2, 3)
    assert arrival.join.key == led_to(member(0))[0].join.key


def test_when_all_are_there_one_job_starts_with_every_output_in_order() -> None:
    (arrival,) = led_to(member(2))
    sent = joined(arrival.join, {2: "s3://longhaul-data/c/", 0: "s3://longhaul-data/a/"}, PIPELINE)
    again = joined(led_to(member(0))[0].join, {0: "s3://longhaul-data/a/", 2: "s3://longhaul-data/c/"}, PIPELINE)
    request = parse_request(sent.body, PIPELINE, PIPELINE.stage("delays"))
    assert sent == again
    assert request.inputs == {"clean_00000": "s3://longhaul-data/a/", "clean_00002": "s3://longhaul-data/c/"}
    assert request.lineage == Lineage(root="months#2013", parent="months#2013")


def test_a_join_closes_only_the_innermost_group() -> None:
    outer = Group(of="years#all", run=1, n=4, size=9)
    inner = Group(of="months#2013", run=5, n=0, size=1)
    lineage = Lineage(root="years#all", parent="months#2013", groups=(outer, inner))
    (arrival,) = led_to(succeeded("clean", lineage=lineage))
    assert arrival.join.group == inner
    assert arrival.join.lineage == Lineage(root="years#all", parent="months#2013", groups=(outer,))


def test_a_job_that_nobody_emitted_is_a_group_of_its_own() -> None:
    (arrival,) = led_to(succeeded("clean", "by-hand", run=5))
    assert arrival.join.group == Group(of="clean#by-hand", run=5, n=0, size=1)


def test_a_job_that_emits_nothing_on_purpose_starts_the_join_behind_so_that_nothing_waits_for_it() -> None:
    (join,) = led_to(succeeded("months", run=5), {"clean": []})
    assert isinstance(join, Join)
    assert (join.stage, join.upstream, join.group.size) == ("delays", "clean", 0)
    assert "inputs" in json.loads(joined(join, {}, PIPELINE).body)


def test_a_stage_that_leads_nowhere_is_followed_by_nothing() -> None:
    assert led_to(succeeded("report")) == []


@pytest.mark.parametrize("root", ["a/./b", "longhaul/x", "//", "x" * 128, "2013.."])
def test_whatever_the_roots_id_the_follow_on_is_a_valid_request(root: str) -> None:
    (follow_on,) = led_to(succeeded("months", root))
    assert isinstance(follow_on, FollowOn)
    assert parse_request(follow_on.body, PIPELINE, PIPELINE.stage("clean")).job_id
