"""A lineage counts only if the row of the named parent proves it."""

from dataclasses import replace
from typing import Any

import pytest
from pydantic import ValidationError

from longhaul.core.descent import (
    MAX_DEPTH,
    MAX_FAMILY,
    Group,
    Lineage,
    child_id,
    fan_out_problem,
    is_child_id,
)
from longhaul.core.lease import CommittedOutput, Lease, State, job_key, joined_ref
from longhaul.pipelines.descent_check import is_child, is_noted
from tests.builders import changed, running, stage

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
