"""The jobs that a success leads to."""

import json
from dataclasses import replace
from typing import Any

import pytest
from pydantic import ValidationError

from longhaul.core.descent import (
    MAX_GROUP,
    Group,
    Lineage,
    child_id,
    is_child_id,
)
from longhaul.core.lease import CommittedOutput, Lease, State, job_key, joined_ref
from longhaul.core.policy import parse_request
from longhaul.core.request import read_request
from longhaul.core.settings import FollowOnSettings, RuntimeSettings
from longhaul.pipelines.descent_check import is_child, is_noted
from longhaul.pipelines.follow_ons import (
    MAX_DEPTH,
    MAX_FAMILY,
    FollowOn,
    Join,
    body_at_most,
    fan_out_problem,
    follow_ons,
    joined,
    with_stored,
)
from tests.builders import BUCKET, changed, running, settings, stage, there

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


@pytest.mark.parametrize(
    ("label", "place"),
    [
        ("2026-10-05", "2026-10-05"),
        ("Graz/../東 *", "Graz%2F..%2F%E6%9D%B1%20%2A"),
        (None, "2013"),
    ],
)
def test_a_place_is_made_of_the_label_the_stage_and_the_place_in_the_group(
    label: str | None, place: str
) -> None:
    output = "data:daily/{label}/{stage}-{n}/"
    clean = stage(name="clean", job="sql", follow_on=FollowOnSettings(output=output))
    pipeline = settings(stages=(*STAGES[:1], clean, *STAGES[2:]))
    parent = succeeded("months")

    emitted = {"clean": [{"label": label}, {"label": label}] if label else [{}, {}]}
    found = [json.loads(each.body) for each in follow_ons_of(parent, emitted, pipeline)]

    assert [(each["output"], each["mode"]) for each in found] == [
        (f"data:daily/{place}/clean-{n}/", "error") for n in range(2)
    ]
    parse_request(json.dumps(found[0]), pipeline, pipeline.stage("clean"))


def test_join_of_the_largest_group_with_the_longest_outputs_fits_into_a_message() -> None:
    long = [f"s3://longhaul-data/{'x' * 700}/{n}/" for n in range(MAX_GROUP)]
    assert len(joined(JOIN, long, None, PIPELINE).job.body) < 2_000


@pytest.mark.parametrize("root", ["a/./b", "longhaul/x", "a//", "x" * 128, "2013.."])
def test_follow_on_is_a_valid_request_for_any_job_id_of_the_root(root: str) -> None:
    (follow_on,) = follow_ons_of(succeeded("months", root))
    assert isinstance(follow_on, FollowOn)
    assert parse_request(follow_on.body, PIPELINE, PIPELINE.stage("clean")).job_id


def test_largest_body_of_an_emitted_job_has_the_largest_place_in_a_group() -> None:
    lease = changed(member(1), output=None)  # it emits while it runs
    request = {"inputs": {"flights": f"s3://{BUCKET}/raw/1.csv"}}

    body = body_at_most(lease, STAGES[1], request, PIPELINE)

    lineage = there(read_request(body).lineage)
    assert (lineage.groups[-1].n, lineage.groups[-1].size) == (MAX_GROUP, MAX_GROUP)
    assert [group.of for group in lineage.groups] == ["months#2013", lease.key]
    assert ": " not in body


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

    lineage = there(read_request(sent.body).lineage)
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


# A lineage counts only if the row of the named parent proves it.


CLEAN = stage(name="clean")
DELAYS = stage(name="delays", join=True)
OUTER = (Group(of="years#all", run=1, n=2, size=3),)


def parent(emitted: dict[str, int] | None = None, **changes: Any) -> Lease:
    output = CommittedOutput(1, 1, 10, prefix="s3://b/out/", emitted=emitted, seal="secret")
    lineage = Lineage(root="years#all", parent="years#all", groups=OUTER)
    base = changed(running(), key="months#2013", stage="months", run=5, output=output)
    return replace(base, **{"state": State.SUCCEEDED, "lineage": lineage, **changes})


def emitted_place(n: int, size: int, seal: str | None = "secret") -> Lineage:
    group = Group(of="months#2013", run=5, n=n, size=size)
    return Lineage(root="years#all", parent="months#2013", run=5, groups=(*OUTER, group), seal=seal)


def id_of(n: int | str, stage_name: str = "clean") -> str:
    return child_id("years#all", stage_name, "months#2013", n)


UNEMITTED = Lineage(root="years#all", parent="months#2013", run=5, groups=OUTER, seal="secret")


@pytest.mark.parametrize(
    ("lineage", "job_id", "emitted", "follows"),
    [
        (emitted_place(1, 2), id_of(1), {"clean": 2}, True),
        (emitted_place(1, 2), id_of(0), {"clean": 2}, False),  # another member's id
        (emitted_place(1, 3), id_of(1), {"clean": 2}, False),  # a larger group
        (emitted_place(2, 2), id_of(2), {"clean": 2}, False),  # beyond the group
        (emitted_place(0, 1), id_of(0), {"delays": 1}, False),  # emitted for another stage
        (emitted_place(1, 2, None), id_of(1), {"clean": 2}, False),  # without the seal
        (emitted_place(1, 2, "guess"), id_of(1), {"clean": 2}, False),
        (UNEMITTED, id_of(0), None, True),
        (UNEMITTED, id_of(0), {"clean": 1}, False),
        (UNEMITTED, id_of(1), None, False),
        (UNEMITTED.model_copy(update={"run": 6}), id_of(0), None, False),
        (UNEMITTED.model_copy(update={"groups": ()}), id_of(0), None, False),
        (UNEMITTED.model_copy(update={"groups": ()}), id_of(0), {"clean": 1}, False),
        (UNEMITTED.model_copy(update={"seal": None}), id_of(0), None, False),
        (UNEMITTED.model_copy(update={"root": "months#2013"}), id_of(0), None, False),
    ],
)
def test_job_follows_only_with_the_id_the_group_the_place_and_the_seal_of_its_parent(
    lineage: Lineage, job_id: str, emitted: dict[str, int] | None, *, follows: bool
) -> None:
    assert is_child(lineage, job_id, CLEAN, parent(emitted)) is follows


def test_nothing_follows_from_a_parent_that_did_not_succeed() -> None:
    assert not is_child(UNEMITTED, id_of(0), CLEAN, parent(state=State.RUNNING))


def test_join_is_proved_by_its_id_and_by_where_its_inputs_are() -> None:
    noted = emitted_place(0, 1)
    job_id = id_of("join", "delays")
    proved = noted.model_copy(update={"inputs_ref": joined_ref(job_key("delays", job_id), 5)})

    assert is_noted(proved, job_id, DELAYS, noted)
    elsewhere = {"inputs_ref": joined_ref(job_key("clean", job_id), 5)}
    assert not is_noted(proved.model_copy(update=elsewhere), job_id, DELAYS, noted)
    assert not is_noted(proved.model_copy(update={"seal": "guess"}), job_id, DELAYS, noted)
    assert not is_noted(proved, id_of(0, "delays"), DELAYS, noted)


PLACE: dict[str, Any] = {"of": "a#b", "run": 1, "n": 0, "size": 1}


def groups(*sizes: int) -> list[Group]:
    return [Group(of="a#b", run=1, n=0, size=size) for size in sizes]


@pytest.mark.parametrize(
    ("sizes", "problem"),
    [
        ((), None),
        ((1,) * 32, None),  # one job that follows from one
        ((2,) * MAX_DEPTH, None),
        ((2,) * (MAX_DEPTH + 1), "9 fan-outs within each other"),
        ((5_000, 20), None),
        ((5_000, 21), "5,000 by 21 may lead to 105,000 jobs"),
    ],
)
def test_fan_outs_within_fan_outs_are_bounded_in_depth_and_in_number(
    sizes: tuple[int, ...], problem: str | None
) -> None:
    found = fan_out_problem(groups(*sizes))

    assert found is None if problem is None else problem in (found or "")
    assert MAX_FAMILY == 100_000


@pytest.mark.parametrize(
    ("most", "too_much"),
    [
        ({"root": "a#b"}, {"root": "no key"}),
        ({"groups": groups(*(1,) * 32)}, {"groups": groups(*(1,) * 33)}),
        ({"groups": [PLACE | {"size": 5_000}]}, {"groups": [PLACE | {"size": 5_001}]}),
        ({"groups": [PLACE | {"run": 10**15}]}, {"groups": [PLACE | {"run": 10**15 + 1}]}),
    ],
    ids=["root", "groups", "size", "run"],
)
def test_lineage_that_a_sender_wrote_is_bounded(
    most: dict[str, Any], too_much: dict[str, Any]
) -> None:
    of = {"root": "a#b", "parent": "a#b", "of_another_version": 1}
    lineage = Lineage.model_validate({**of, **most})
    assert {lineage} == {lineage.model_copy()}
    with pytest.raises(ValidationError):
        Lineage.model_validate({**of, **too_much})


def test_id_of_a_follow_on_begins_with_its_roots_cut_and_made_plain() -> None:
    made = child_id("main#2013/01:x" + "y" * 100, "clean", "main#p", 0)

    root, stage_name, digest = made.split("/")
    assert root == ("2013-01-x" + "y" * 100)[:60]
    assert stage_name == "clean"
    assert len(digest) == 20


def test_the_form_of_their_ids_is_known() -> None:
    assert is_child_id(id_of(0), "clean")
    assert is_child_id(id_of("join", "delays"), "delays")
    assert is_child_id("a/clean/0123456789abcdef0123", "clean")
    for other in (
        "",
        "x",
        "a/clean",
        "a/b/clean/" + "0" * 20,
        "a/clean/2013-01",
        "a/clean/" + 20 * "g",
        "a/clean/" + 19 * "0",
    ):
        assert not is_child_id(other, "clean")
    assert not is_child_id(id_of(0), "delays")


def test_ids_of_follow_ons_differ_by_parent_and_place() -> None:
    made = {
        child_id("main#r", "clean", parent_key, n)
        for parent_key in ("main#p", "main#q")
        for n in (0, "join")
    }

    assert len(made) == 4
