"""Dead letters are received only when a person asks."""

from tests.cli.conftest import World
from tests.cli.page.conftest import Elements, Visitor, words
from tests.cli.page.scenes import dead
from tests.cli.page.test_actions import keys_asked


def test_each_letter_is_shown_with_its_reason_and_stays_visible_to_others(
    world: World, visitor: Visitor
) -> None:
    ids = [world.bury(f"job-{n}", "failed", f"reason {n}") for n in range(12)]
    page = words(visitor.read("/dead-letters", stage="main"))
    assert "job-7 failed 0s ago 3 reason 7" in page
    assert all(each in page for each in ids)
    assert world.dead() == ids


def test_only_this_page_receives_letters_and_it_does_not_refresh(
    world: World, visitor: Visitor
) -> None:
    world.bury("job")
    for path in ("/", "/job?id=job", "/ask/rerun?key=main%23job"):
        visitor.get(path)
    assert world.aws.gate.counts["sqs.ReceiveMessage"] == 0
    assert "data-refresh" not in visitor.read("/dead-letters")
    assert world.aws.gate.counts["sqs.ReceiveMessage"] > 0


def test_a_job_that_is_still_dead_of_a_letter_runs_again(world: World, visitor: Visitor) -> None:
    rows = [dead(world, f"day-{n}", f"missing input: s3://b/{n}.csv") for n in range(3)]
    world.again(rows[2])
    # A conflict tells of another request under the id of a dead job.
    world.bury("day-0", "conflicting_job_id", "day-0 is another request")
    page = visitor.read("/dead-letters", stage="main")
    assert "day-2 ▶ running permanent" in words(page)
    links = [str(each["href"]) for each in Elements(page).of("a") if "data-ask" in each]
    assert [keys_asked(visitor.read(each)) for each in links] == [["main#day-0"], ["main#day-1"]]
    same = visitor.read("/", window="7d", state="DEAD", text="missing input")
    assert "Rerun 2 of them" in words(same)


def test_a_long_list_of_letters_is_cut_and_says_so(world: World, visitor: Visitor) -> None:
    for n in range(105):
        world.bury(f"job-{n}")
    assert "There are more than these 100" in visitor.read("/dead-letters", stage="main")
    assert len(world.dead()) == 105


def test_an_empty_list_of_letters_says_so(visitor: Visitor) -> None:
    assert "No dead letters." in visitor.read("/dead-letters")
    assert visitor.get("/dead-letters", stage="nowhere").status_code == 404
