"""Each right of the stack is needed: the record of what the roles called is judged without it.

A right is one action of one statement. With the statement as it is, the judge allows all that
end-to-end tests, `verify` and the demo have recorded (`tests/role_calls.jsonl`) and all that AWS's
services do by themselves (`tests/cdk/service_calls.py`). Without the action something is denied, or
`kept_rights` says why it stays.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from fnmatch import fnmatchcase

import pytest

from longhaul.local.iam.judge import Judge
from tests.cdk.conftest import KEYS, NOTIFIED, SECRET
from tests.cdk.kept_rights import (
    FINISHERS,
    IN_THE_DATA_BUCKET,
    JOBS,
    KEPT,
    OF_A_TRIGGER,
    OF_CATCHING_UP,
    Right,
)
from tests.cdk.role_calls_page import PAGE, page
from tests.cdk.roles import Roles, Statement, Use
from tests.cdk.service_calls import ENGINES, GUARDED, USUAL, scheduled, through_s3, triggered
from tests.cdk.synthesis import Synthesis
from tests.role_calls import recorded
from tests.synthesized import local_profile

WRITES = ("s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload")
RECORD = [
    Use(f"<{call.role}.Arn>", (call.action,), call.resource, "", dict(call.context))
    for call in recorded()
]


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Roles:
    """Those of the stack that `longhaul up` deploys, whose calls are recorded."""
    return Roles(Synthesis(local_profile(tmp_path_factory)).template)


@pytest.fixture(scope="module")
def uses(deployed: Roles) -> list[Use]:
    return [deployed.named(use) for use in (*RECORD, *USUAL, *ENGINES, *triggered("Main"))]


def test_all_that_was_recorded_is_still_allowed(
    deployed: Roles, judge: Judge, uses: list[Use]
) -> None:
    assert [use for use in uses if deployed.refused(judge, use)] == []


def test_each_right_is_needed_or_kept_for_a_reason(
    deployed: Roles, judge: Judge, uses: list[Use]
) -> None:
    kept = [right for rights in KEPT.values() for right in rights]
    assert len(set(kept)) == len(kept)
    idle = set(unneeded(deployed, judge, uses))
    assert idle - set(kept) == set(), "nothing needs these: drop them, or say why they stay"
    assert set(kept) - idle == set(), "these are needed by now, or gone"


def unneeded(roles: Roles, judge: Judge, uses: Iterable[Use]) -> Iterator[Right]:
    for statement, action, concerned in by_right(roles, uses, "Allow"):
        with statement.removed(action):
            if not any(roles.refused(judge, use) for use in concerned):
                yield statement.owner, statement.name, action


def by_right(
    roles: Roles, uses: Iterable[Use], effect: str
) -> Iterator[tuple[Statement, str, list[Use]]]:
    """Each right, or prohibition, with the uses that it may concern."""
    single = [replace(use, actions=(action,)) for use in uses for action in use.actions]
    for statement in roles.statements():
        for action in statement.actions if statement.content["Effect"] == effect else ():
            yield (
                statement,
                action,
                [
                    use
                    for use in single
                    if fnmatchcase(use.actions[0], action)
                    and (use.who.endswith(f"/{statement.owner}") or statement.owner in use.resource)
                ],
            )


# What must stay forbidden, in the words of `by_right`: each of these has one prohibition that
# refuses it. The page says what the service would do otherwise.
OVER_HTTP: dict[str, str | list[str]] = {"aws:SecureTransport": "false"}
FORBIDDEN = [
    *(
        Use(f"<{role}.Arn>", WRITES, f"<Data.Arn>/{folder}/…", "")
        for role in JOBS
        for folder in ("jobs", "longhaul/requests", "longhaul/joined")
    ),
    *(Use(f"<{role}.Arn>", WRITES, "<Data.Arn>/jobs/…", "") for role in FINISHERS),
    *(
        Use(f"<{role}.Arn>", ("s3:DeleteObject",), f"<Data.Arn>/longhaul/{folder}/…", "")
        for role in FINISHERS
        for folder in ("requests", "joined")
    ),
    Use("<SettleRole.Arn>", ("sqs:SendMessage",), "<MainQueueDeadLetters.Arn>", "", OVER_HTTP),
    Use("<SettleRole.Arn>", ("sqs:SendMessage",), "<MainQueueJobs.Arn>", "", OVER_HTTP),
    Use(
        "<SchedulingMainRole.Arn>",
        ("sqs:SendMessage",),
        "<SchedulingUndelivered.Arn>",
        "",
        OVER_HTTP,
    ),
    Use("<SettleRole.Arn>", ("s3:GetObject",), "<Data.Arn>/…", "", OVER_HTTP),
    *(
        replace(use, context={**use.context, **OVER_HTTP})
        for use in USUAL
        if use.resource in {"<SweepingUndelivered.Arn>", "<AlarmsTopic.Arn>"}
    ),
]


def test_each_prohibition_refuses_what_would_be_allowed_without_it(
    deployed: Roles, judge: Judge
) -> None:
    forbidden = [deployed.named(use) for use in FORBIDDEN]
    for use in forbidden:
        assert deployed.refused(judge, use) == [*use.actions], use
    idle = []
    for statement, action, concerned in by_right(deployed, forbidden, "Deny"):
        with statement.removed(action):
            if all(deployed.refused(judge, use) for use in concerned):
                idle.append((statement.owner, statement.name, action))
    assert idle == []


# What only other settings bring: code and inputs of other buckets, keys, listeners, optimizers.
FURTHER = {
    "guarded": GUARDED,
    "with_all": [
        Use(f"<{role}.Arn>", (action,), target, "")
        for role in FINISHERS
        for action, target in (
            ("sqs:SendMessage", NOTIFIED["main"]),
            ("sns:Publish", NOTIFIED["topic"]),
            ("events:PutEvents", NOTIFIED["bus"]),
        )
    ]
    + [*scheduled("Topic"), *scheduled("Bus")]
    + [
        Use(f"<{role}.Arn>", ("secretsmanager:GetSecretValue",), SECRET, "")
        for stage in ("", "Topic", "Bus")
        for role in (f"Spark{stage}TaskRole", f"EmrServerless{stage}JobRole")
    ],
    "varied": [
        *(
            through_s3(role, ("kms:Decrypt", "kms:GenerateDataKey"), KEYS["their-output"], "")
            for role in ("SparkTaskRole", *FINISHERS)
        ),
        *(
            through_s3("SparkTaskRole", ("kms:Decrypt",), KEYS[bucket], "")
            for bucket in ("their-input", "their-code")
        ),
        Use("<SparkTaskRole.Arn>", ("s3:GetObject",), "arn:aws:s3:::their-input/…", ""),
        Use("<SparkTaskRole.Arn>", ("s3:ListBucket",), "arn:aws:s3:::their-input", ""),
        Use("<SparkTaskRole.Arn>", ("s3:GetObject",), "arn:aws:s3:::their-code/production/…", ""),
        *(
            Use("<SparkCleanUpTaskRole.Arn>", (action,), f"arn:aws:s3:::{target}", "")
            for action, target in (
                ("s3:GetObject", "their-input/…"),
                ("s3:ListBucket", "their-input"),
                ("s3:GetObject", "<Data>/jobs/nightly/…"),
            )
        ),
        through_s3("SparkCleanUpTaskRole", ("kms:Decrypt",), KEYS["their-input"], ""),
        *scheduled("CleanUp"),
        *triggered("CleanUp"),
    ],
}


# Its jobs do what those of any stage do; `test_rights` has what tells stages apart.
_OF_A_STAGE = re.compile(r"(Topic|Bus|CleanUp)(?=TaskRole|JobRole)")


@pytest.mark.parametrize("settings", FURTHER)
def test_each_right_that_other_settings_bring_is_needed(
    request: pytest.FixtureRequest, deployed: Roles, judge: Judge, settings: str
) -> None:
    stack: Synthesis = request.getfixturevalue(settings)
    roles = Roles(stack.template)
    known = {(each.owner, each.name) for each in deployed.statements()}
    if settings == "varied":
        known -= {right[:2] for right in IN_THE_DATA_BUCKET}
    idle = {
        right
        for right in unneeded(roles, judge, map(roles.named, FURTHER[settings]))
        if (_OF_A_STAGE.sub("", right[0]), right[1]) not in known
    }
    of_triggers = {("CleanUpQueueJobs", *right[1:]) for right in OF_A_TRIGGER}
    has_schedules = settings in ("varied", "with_all")
    assert idle == (of_triggers if settings == "varied" else set()) | (
        set(OF_CATCHING_UP) if has_schedules else set()
    )


def test_the_page_shows_the_record() -> None:
    assert PAGE.read_text("utf-8") == page(), "python -m tests.cdk.role_calls_page writes it"
