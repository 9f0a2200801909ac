"""Writes `docs/role-calls.md`: which part of the stack calls what."""

from collections.abc import Iterable, Mapping
from itertools import groupby
from textwrap import fill
from typing import Final

from tests.cdk.kept_rights import KEPT
from tests.cdk.roles import Use
from tests.cdk.service_calls import ENGINES, GUARDED, USUAL
from tests.layers import ROOT
from tests.role_calls import recorded

PAGE: Final = ROOT / "docs" / "role-calls.md"
_PARTS: Final = {
    "DispatcherRole": "the dispatcher, a function that takes messages and starts attempts",
    "EmrServerlessJobRole": "a job's driver and executors on EMR Serverless",
    "HeartbeatRole": "the heartbeat, a function that keeps a running job's message hidden",
    "LambdaJobRole": "a job of the size tiny, a function",
    "SettleRole": "settle, a function that ends an attempt",
    "SparkTaskRole": "a job's task on Fargate, with the job's own code",
    "SweeperRole": "the sweeper, a function that repairs what a crash left",
    "WorkflowRole": "the state machine",
}
_INTRODUCTION: Final = """\
# Who calls what

Written by `python -m tests.cdk.role_calls_page`; a test holds it equal to its sources.

## What each role calls

Recorded by the gate of the embedded AWS ([local.md](local.md#roles)) while end-to-end tests,
`longhaul verify` and the demo ran, under the policies of the template. `make role-calls` makes the
record again (`tests/role_calls.jsonl`). A call stands here once. Resources have their names in the
template, those of each stage as those of the stage `main`; `…` stands for what differs from job to
job. Conditions are the context keys of the call
that a policy may ask for, without the lists of a row's attributes, which the record has.

Tests judge each call of the record again, by the policies of the template. All must be allowed.
Then each right (one action of one statement) is taken away: where nothing is denied then, the right
is not needed. It is dropped, or [the last part](#rights-that-no-call-here-needs) says why it
stays. Each prohibition is taken away too: it must refuse something that would be allowed without.
"""
_SERVICES: Final = """
## What AWS's services do by themselves

No request of ours makes these calls, so no record has them. They come from AWS's pages, and the
same judge must allow them.

| who | calls | on | page |
|---|---|---|---|
"""
_KEPT: Final = """
## Rights that no call here needs
"""


def page() -> str:
    parts = [_INTRODUCTION]
    for role, calls in groupby(recorded(), key=lambda call: call.role):
        parts.append(
            f"\n### {role}: {_PARTS[role]}\n\n| calls | on | conditions |\n|---|---|---|\n"
        )
        parts += [
            f"| `{call.action}` | {_code(call.resource)} | {_conditions(call.context)} |\n"
            for call in calls
        ]
    parts.append(_SERVICES)
    parts += [_service(use) for use in (*USUAL, *ENGINES, *GUARDED)]
    parts.append(_KEPT)
    for why, rights in KEPT.items():
        parts.append(
            f"\n{fill(why, 100)}\n\n| role or resource | statement | actions |\n|---|---|---|\n"
        )
        for (owner, statement), each in groupby(rights, key=lambda right: right[:2]):
            actions = _codes(action for _, _, action in each)
            parts.append(f"| {owner} | {statement} | {actions} |\n")
    return "".join(parts)


def _service(use: Use) -> str:
    who = use.who.removeprefix("<").removesuffix(".Arn>")
    name = use.page.rpartition("/")[2].removesuffix(".html")
    return f"| {who} | {_codes(use.actions)} | {_code(use.resource)} | [{name}]({use.page}) |\n"


def _conditions(context: Mapping[str, str | list[str]]) -> str:
    return _codes(
        f"{key} = {', '.join(value) if isinstance(value, list) else _short(value)}"
        for key, value in context.items()
        if key != "dynamodb:Attributes"
    )


def _codes(texts: Iterable[str]) -> str:
    return ", ".join(f"`{text}`" for text in texts)


def _code(arn: str) -> str:
    return f"`{_short(arn)}`"


def _short(arn: str) -> str:
    """Without the part that all ARNs of one account and region share."""
    return arn.rpartition("123456789012:")[2].removeprefix("arn:aws:s3:::")


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
