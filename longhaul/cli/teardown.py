"""Checks before `longhaul destroy` deletes anything.

The exit code is 1 if the deletion would hang, or lose messages, and 2 if a setting is wrong.
"""

import sys
from collections.abc import Iterator

from botocore.exceptions import BotoCoreError, ClientError

from longhaul.cli.checks import network, teardown
from longhaul.cli.checks.finding import Finding, problem
from longhaul.cli.errors import CommandError
from longhaul.cli.insight.storage import stored
from longhaul.cli.preflight import misplaced, target_of, tell, with_settings
from longhaul.cli.sentences import translated
from longhaul.cli.target import Target
from longhaul.config.settings import Settings
from longhaul.domain.errors import LonghaulError


@with_settings("longhaul destroy")
def main(settings: Settings, profile: str | None) -> int:
    if misplaced(settings, profile):
        return 1
    try:
        target = target_of(settings, profile)
        problems = tell((*findings(target), *network.left_behind(target)))
        if problems:
            sys.stdout.write(f"{problems} to solve first; nothing was deleted\n")
            return 1
        sys.stdout.write(f"{target} can be deleted; what stays, and what it costs:\n")
        for each in stored(target.settings, target.client("dynamodb"), target.client("s3")):
            sys.stdout.write(f"    {each}\n")
        sys.stdout.write(
            "    the table is protected from deletion, until `aws dynamodb update-table "
            "--no-deletion-protection-enabled --table-name …`\n"
            "    the image of the jobs, in the registry of the CDK's bootstrap; "
            "`cdk gc` removes it\n"
        )
    except (ClientError, BotoCoreError) as error:
        message = translated(error, on_aws=True)
        tell([problem(f"stack: {message}", "choose credentials that may look at it")])
        return 1
    except (CommandError, LonghaulError) as error:
        # No such stack, or not one of Longhaul's.
        tell([problem(f"stack: {error}", "name it in the setting stack_name")])
        return 1
    return 0


def findings(target: Target) -> Iterator[Finding]:
    drainer = target.drainer()
    yield from teardown.rest(drainer)
    yield from teardown.queues(drainer)
