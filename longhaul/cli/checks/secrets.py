"""Whether the secrets of stages are there, and whether the stage's role may read them."""

from collections.abc import Iterator

from botocore.exceptions import ClientError

from longhaul.adapters.errors import code_of
from longhaul.cli.checks.account import denials
from longhaul.cli.checks.finding import Finding, ok, problem, skipped
from longhaul.cli.checks.rights import task_role
from longhaul.cli.checks.stage_secrets import Existence, StageSecret, existence, stage_secrets
from longhaul.cli.target import Target


def secrets(target: Target) -> Iterator[Finding]:
    """By description and simulation: no value is read."""
    for secret in stage_secrets(target):
        what = f"secrets: {secret.variable} of stage {secret.stage}"
        try:
            found = existence(target, secret.ref)
        except ClientError as error:
            yield skipped(f"{what}: you may not ask whether it is there ({code_of(error)})")
            continue
        if found is None or found.is_being_deleted:
            why = "is not there" if found is None else "is being deleted"
            yield problem(
                f"{what}: {secret.ref.arn} {why}: the stage's jobs wait",
                "make it, or name another in the stage's secrets"
                if found is None
                else "restore it (aws secretsmanager restore-secret)",
            )
            continue
        yield from _readable(target, secret, found, what)


def _readable(
    target: Target, secret: StageSecret, found: Existence, what: str
) -> Iterator[Finding]:
    role = None if target.place.embedded else task_role(target, secret.stage)
    if role is None:
        yield ok(f"{what} is there")
        return
    iam = target.client("iam")
    try:
        arn = iam.get_role(RoleName=role)["Role"]["Arn"]
        denied = [
            each
            for action, resource in _needed(secret, found)
            for each in denials(iam, arn, [action], [resource])
        ]
    except ClientError as error:
        yield ok(f"{what} is there; you may not ask what the role may do ({code_of(error)})")
        return
    if denied:
        yield problem(
            f"{what}: the role {role} may not {', '.join(denied)}: the stage's jobs wait",
            "let it, in the stage's policies (docs/stages.md)",
        )
    else:
        yield ok(f"{what} is there, and its role may read it, by simulation")


def _needed(secret: StageSecret, found: Existence) -> Iterator[tuple[str, str]]:
    is_parameter = secret.ref.service == "ssm"
    read = "ssm:GetParameter" if is_parameter else "secretsmanager:GetSecretValue"
    yield read, secret.ref.arn
    # An alias is no resource of a policy.
    if found.key is not None and found.key.startswith("arn:") and ":key/" in found.key:
        yield "kms:Decrypt", found.key
