"""`longhaul submit` names the tenant, and refuses a stage in which nothing starts."""

import pytest

from tests.builders import QUEUE_URL, stage
from tests.cli.conftest import World

FLAGS = ("--job", "sql", "--output", "s3://longhaul-data/out/", "--param", "query=SELECT 1")


def test_group_becomes_the_message_group_of_a_fair_queue(world: World) -> None:
    assert world.run("submit", *FLAGS, "--group", "tenant-7").exit_code == 0
    (message,) = world.aws.sqs.queues[QUEUE_URL].messages.values()
    assert message.group_id == "tenant-7"


@pytest.mark.parametrize("group", ["", "two words", "x" * 129, "é"])
def test_group_that_sqs_would_refuse_is_refused_in_a_sentence(world: World, group: str) -> None:
    done = world.run("submit", *FLAGS, "--group", group)
    assert done.exit_code == 2
    assert "up to 128 letters, digits and punctuation" in done.stderr
    assert world.queued() == []


def test_nothing_is_sent_to_a_retired_stage(bare: World) -> None:
    bare.settings = bare.settings.model_copy(update={"stages": (stage(retired=True),)})
    bare.deploy()
    done = bare.run("submit", *FLAGS)
    assert done.exit_code == 2
    assert "stage main is retired: nothing starts there" in done.stderr
    assert bare.queued() == []
