from dataclasses import replace

from longhaul.cli.insight.family import family, waits
from longhaul.domain.lease import Lease, State
from longhaul.domain.lineage import Group, Lineage
from longhaul.domain.pipeline import Pipeline
from tests.builders import running, stage

ROOT = running(key="main#year", run=7)


def member(
    name: str, stage: str, parent: Lease, *, n: int = 0, size: int = 1, run: int = 7
) -> Lease:
    """A job that `parent` has emitted."""
    group = Group(of=parent.key, run=run, n=n, size=size)
    lineage = Lineage(root=ROOT.key, parent=parent.key, groups=(group,))
    return running(key=f"{stage}#{name}", stage=stage, lineage=lineage)


def keys(*, of: Lease, among: list[Lease]) -> list[str]:
    return [each.lease.key for each in family(among, of.key).all()]


def test_a_fan_out_is_in_order_and_precedes_its_join() -> None:
    months = [member(f"m{n}", "clean", ROOT, n=n, size=12) for n in (10, 2, 0)]
    place = (Group(of=ROOT.key, run=7, n=0, size=1, opens=("delays",)),)
    lineage = Lineage(root=ROOT.key, parent=ROOT.key, groups=place, inputs_ref="joined/x.json")
    joined = running(key="delays#join", stage="delays", lineage=lineage)
    assert keys(of=ROOT, among=[joined, *months, ROOT]) == [
        "main#year",
        "clean#m0",
        "clean#m2",
        "clean#m10",
        "delays#join",
    ]


def test_unclaimed_jobs_of_the_latest_run_are_counted() -> None:
    rows = [ROOT, *(member(f"m{n}", "clean", ROOT, n=n, size=12) for n in range(3))]
    earlier = member("old", "clean", ROOT, n=0, size=40, run=6)
    assert family([*rows, earlier], ROOT.key).unclaimed == {"clean": 9}


def test_a_chain_is_below_the_member_that_it_follows() -> None:
    month = member("m0", "clean", ROOT)
    lineage = Lineage(
        root=ROOT.key, parent=month.key, groups=month.lineage.groups if month.lineage else ()
    )
    checked = running(key="check#m0", stage="check", lineage=lineage)
    tree = family([checked, month, ROOT], ROOT.key)
    assert [each.lease.key for each in tree.children[0].children] == ["check#m0"]
    assert tree.children[0].unclaimed == {}
    assert keys(of=month, among=[checked, month, ROOT]) == ["clean#m0", "check#m0"]


def test_a_row_whose_parent_is_gone_does_no_harm() -> None:
    orphan = member("m0", "clean", running(key="main#gone", run=7))
    assert keys(of=ROOT, among=[ROOT, orphan]) == ["main#year"]


NESTED = Pipeline(
    (
        stage(name="main", next=("months",)),
        stage(name="months", next=("days",)),
        stage(name="days", next=("month",)),
        stage(name="month", join=True, opener="months", next=("year",)),
        stage(name="year", join=True, opener="main"),
    )
)


def test_join_waits_for_inner_joins_and_for_the_jobs_that_have_not_come_to_it() -> None:
    root = replace(ROOT, state=State.SUCCEEDED, opens=("year",))
    months = [
        replace(member(f"m{n}", "months", root, n=n, size=4), state=state, opens=("month",))
        for n, state in enumerate((State.SUCCEEDED, State.SUCCEEDED, State.DEAD))
    ]
    days = [
        replace(member(f"d{n}", "days", months[0], n=n, size=3, run=months[0].run), state=state)
        for n, state in enumerate((State.SUCCEEDED, State.RUNNING))
    ]
    place = (Group(of=months[1].key, run=months[1].run, n=0, size=1, opens=("month",)),)
    lineage = Lineage(root=root.key, parent=months[1].key, groups=place, inputs_ref="joined/x.json")
    joined = running(key="month#m1", stage="month", lineage=lineage, state=State.SUCCEEDED)

    tree = family([root, *months, *days, joined], root.key)

    assert waits(tree, "year", NESTED) == (3, 4)  # of months: one has come
    assert waits(tree.children[0], "month", NESTED) == (2, 3)
