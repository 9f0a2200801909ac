"""The page over a restart of the embedded AWS, which deploys the stack anew."""

from dataclasses import replace

import pytest
from botocore.exceptions import EndpointConnectionError
from werkzeug.test import Client

from longhaul.cli.page.app import Page
from longhaul.cli.page.guard import Guard
from longhaul.cli.page.lasting import PERIOD_S, LastingPage
from longhaul.cli.page.latest import Views
from longhaul.cli.place import Place
from longhaul.cli.target import Target
from longhaul.wiring import Wiring
from simulation.aws.service import Answer, Call, Proceed
from tests.cli.conftest import World
from tests.cli.page.conftest import PORT, ROOT, Visitor
from tests.contract.conftest import creation

MISSING = "a part of the stack is missing"


class Restarted:
    """A page whose stack can be deployed anew, with another table."""

    def __init__(self, world: World, target: Target) -> None:
        self.world, self.now = world, 0.0
        views = Views(world.clock.now, spawn=lambda work: work())
        page = Page(target, Guard(PORT, ROOT.removeprefix("/")), views)
        lasting = LastingPage(page, spawn=lambda work: work(), clock=lambda: self.now)
        self.visitor = Visitor(Client(lasting))

    def looked(self) -> str:
        """What a later refresh shows."""
        self.world.clock.sleep(PERIOD_S)
        self.now += PERIOD_S
        return self.visitor.read("/")

    def take_away(self) -> None:
        del self.world.aws.dynamodb.tables["leases"]
        self.world.aws.cloudformation.stacks.clear()

    def deploy_anew(self) -> World:
        self.world.aws.dynamodb.create_table(**creation("leases-2"))
        known = self.world.settings.model_copy(update={"leases_table": "leases-2"})
        fresh = replace(self.world, settings=known, parts=Wiring(known, self.world.aws.client))
        fresh.deploy()
        return fresh


@pytest.fixture
def page(world: World, target: Target) -> Restarted:
    return Restarted(world, target)


def test_the_page_finds_a_stack_that_was_deployed_anew(page: Restarted) -> None:
    page.world.claim("old")
    assert "old" in page.looked()
    page.take_away()
    for _ in range(3):  # as long as nothing is there
        assert MISSING in page.looked()
    page.deploy_anew().claim("new")
    shown = page.looked()
    assert MISSING not in shown
    assert "new" in shown


def test_a_question_alone_finds_it_too(page: Restarted) -> None:
    page.looked()
    page.take_away()
    page.deploy_anew().claim("new")
    asked = {"stage": "main", "id": "new"}
    assert page.visitor.get("/ask/cancel", **asked).status_code == 502
    assert page.visitor.get("/ask/cancel", **asked).status_code == 200


def test_a_stack_with_a_missing_part_is_not_looked_up_at_each_refresh(page: Restarted) -> None:
    page.looked()
    del page.world.aws.dynamodb.tables["leases"]
    page.looked()
    page.world.aws.gate.counts.clear()
    for _ in range(5):
        page.world.clock.sleep(2)
        page.now += 2
        assert MISSING in page.visitor.read("/")
    assert page.world.aws.gate.counts["cloudformation.DescribeStacks"] == 1


def test_no_answer_may_be_a_restart_on_another_port(page: Restarted, world: World) -> None:
    def silent(call: Call, proceed: Proceed) -> Answer:
        del call, proceed
        raise EndpointConnectionError(endpoint_url="http://127.0.0.1:1")

    page.looked()
    world.aws.gate.around = silent
    assert "no answer from" in page.looked()
    world.aws.gate.around = None
    assert "no answer from" not in page.looked()


def test_a_target_that_is_looked_up_anew_never_leaves_the_embedded_aws(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    del world
    target = Target(Place("http://127.0.0.1:1", "us-east-1", None, embedded=True), "Mine")
    found = Place("http://127.0.0.1:2", "us-east-1", None, embedded=True)
    monkeypatch.setattr("longhaul.cli.target.locate", lambda *_: found)
    assert (target.again().place, target.again().stack) == (found, "Mine")
    gone = Place(None, "eu-west-1", None, embedded=False)
    monkeypatch.setattr("longhaul.cli.target.locate", lambda *_: gone)
    assert target.again().place == target.place
