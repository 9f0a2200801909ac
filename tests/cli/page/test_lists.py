"""What is read when a person asks: the schedules. The tables are in test_table.py."""

import json
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from longhaul.cli.page import lists
from longhaul.cli.target import Target
from tests.builders import QUEUE_URL
from tests.cli.conftest import World
from tests.cli.page.conftest import Visitor, visitor_of, words


@pytest.mark.parametrize(
    ("state", "is_installed", "following"),
    [
        ("ENABLED", True, "in 22h55m (2026-01-03 02:00:00Z)"),
        ("ENABLED", False, ""),
        ("DISABLED", True, "off"),
    ],
)
def test_a_schedule_is_shown_with_its_next_firing(
    world: World,
    target: Target,
    monkeypatch: pytest.MonkeyPatch,
    state: str,
    following: str,
    *,
    is_installed: bool,
) -> None:
    def get_schedule(Name: str) -> dict[str, Any]:  # noqa: N803 - boto3's
        assert Name == "Longhaul-main"
        return {
            "ScheduleExpression": "cron(0 3 * * ? *)",
            "ScheduleExpressionTimezone": "Europe/Berlin",
            "CreationDate": world.clock.now() - timedelta(days=1),
            "State": state,
            "Target": {"Input": json.dumps({"QueueUrl": QUEUE_URL})},
        }

    monkeypatch.setattr(lists, "find_spec", lambda _: is_installed or None)
    monkeypatch.setattr(
        world.aws, "scheduler", SimpleNamespace(get_schedule=get_schedule), raising=False
    )
    stack = world.aws.cloudformation.stacks["Longhaul"]
    schedule = {"Schedule1": ("AWS::Scheduler::Schedule", "Longhaul-main")}
    world.deploy(resources={**stack.resources, **schedule})
    page = words(visitor_of(target).read("/schedules"))
    assert page.endswith(f"main cron(0 3 * * ? *) Europe/Berlin {following}".rstrip())


def test_a_stack_without_schedules_says_so(visitor: Visitor) -> None:
    assert "No stage has a schedule." in visitor.read("/schedules")
