"""Makes the service-linked role of ECS.

`longhaul bootstrap` does so before the CDK's own bootstrap. An account that has used ECS has the
role; in one that has not, the first cluster with capacity providers fails for want of it.
https://docs.aws.amazon.com/AmazonECS/latest/developerguide/using-service-linked-roles.html
"""

import argparse
import sys
from collections.abc import Sequence
from typing import Any

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from longhaul.adapters.errors import code_of
from longhaul.cli.checks.deploying import SERVICE_ROLE
from longhaul.cli.sentences import translated

SERVICE = "ecs.amazonaws.com"


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="longhaul bootstrap", allow_abbrev=False, add_help=False)
    parser.add_argument("--profile")
    profile = parser.parse_known_args(arguments)[0].profile
    try:
        is_new = make_service_role(boto3.Session(profile_name=profile).client("iam"))
    except (ClientError, BotoCoreError) as error:
        message = translated(error, on_aws=True)
        sys.stderr.write(f"the role {SERVICE_ROLE} could not be made: {message}\n")
        return 1
    sys.stdout.write(f"{SERVICE_ROLE}: {'made' if is_new else 'is there already'}\n")
    return 0


def make_service_role(iam: Any) -> bool:  # noqa: ANN401 - one of boto3's clients
    """Make the role unless the account has it; returns whether it was made."""
    # Looked for first: an account that has it may deny the making.
    try:
        iam.get_role(RoleName=SERVICE_ROLE)
    except ClientError as error:
        if code_of(error) != "NoSuchEntity":
            raise
    else:
        return False
    iam.create_service_linked_role(AWSServiceName=SERVICE)
    return True
