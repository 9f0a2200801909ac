"""What AWS's services do with the roles by themselves, judged by the engine that judges calls."""

import pytest

from longhaul.local.iam.judge import Judge
from tests.cdk.roles import Roles, Use
from tests.cdk.service_calls import ENGINES, GUARDED, USUAL
from tests.cdk.synthesis import Synthesis


@pytest.mark.parametrize(
    ("settings", "uses"), [("usual", USUAL), ("with_engines", ENGINES), ("guarded", GUARDED)]
)
def test_a_service_may_do_what_its_page_says_that_it_does(
    request: pytest.FixtureRequest, judge: Judge, settings: str, uses: list[Use]
) -> None:
    stack: Synthesis = request.getfixturevalue(settings)
    roles = Roles(stack.template)
    assert [use for use in map(roles.named, uses) for _ in roles.refused(judge, use)] == []


def test_a_service_may_not_do_it_for_another_account_or_rule(
    with_engines: Synthesis, judge: Judge
) -> None:
    foreign = {
        "aws:SourceAccount": "999999999999",
        "aws:SourceArn": "arn:aws:events:eu-west-1:999999999999:rule/x",
    }
    roles = Roles(with_engines.template)
    bound = [
        use
        for use in map(roles.named, [*USUAL, *ENGINES])
        if not use.who.startswith("arn:") and use.who != "lambda.amazonaws.com"
    ]
    assert len(bound) == 10
    for use in bound:
        stranger = Use(use.who, use.actions, use.resource, use.page, {**use.context, **foreign})
        assert roles.refused(judge, stranger) == [*use.actions], use


def test_a_service_is_refused_that_a_role_does_not_trust(
    with_engines: Synthesis, judge: Judge
) -> None:
    roles = Roles(with_engines.template)
    for use in map(roles.named, [*USUAL, *ENGINES]):
        if use.actions == ("sts:AssumeRole",):
            stranger = Use(f"not-{use.who}", use.actions, use.resource, use.page, use.context)
            assert roles.refused(judge, stranger) == ["sts:AssumeRole"], use
