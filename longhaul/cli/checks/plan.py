"""A deployment that is about to be made, and whether the credentials are right for it."""

import argparse
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass

from botocore.exceptions import BotoCoreError, ClientError

from longhaul.cli.errors import CommandError
from longhaul.cli.place import Place
from longhaul.cli.project import chosen
from longhaul.cli.sentences import translated
from longhaul.cli.target import Target
from longhaul.config.cdk_context import merged
from longhaul.config.project import bare, demo
from longhaul.config.settings import CONTEXT_KEY, Settings
from longhaul.config.sources import sources
from longhaul.config.stages import StageDeployment
from longhaul.operations.errors import NoSuchStackError


@dataclass(frozen=True)
class Plan:
    """Where it goes, and its settings."""

    target: Target
    settings: Settings

    @property
    def is_first(self) -> bool:
        """Whether there is no such stack yet, or its first deployment was rolled back."""
        try:
            _ = self.target.deployment
        except NoSuchStackError:
            return True
        return False

    @property
    def stages(self) -> list[StageDeployment]:
        """Those in which jobs will start."""
        return [each for each in self.settings.stages if not each.advanced.retired]


def plan_of(settings: Settings, profile: str | None) -> Plan:
    """The deployment of these settings to AWS.

    Raises:
        CommandError: the credentials, the region or the account are not right. The CDK would say so
            later, and in other words.
    """
    # Never the embedded AWS of this machine, which `locate` would find: the CDK does not deploy
    # there.
    endpoint = os.environ.get("AWS_ENDPOINT_URL") or None
    # The CDK knows AWS_REGION; boto3 knows the other one and the profile's.
    region = settings.region or os.environ.get("AWS_REGION") or None
    try:
        target = Target(Place(endpoint, region, profile, embedded=False), settings.stack_name)
        account = target.identity["Account"]
    except (ClientError, BotoCoreError) as error:
        raise translated(error, on_aws=True) from error
    if settings.account not in (None, account):
        raise CommandError(
            f"the credentials are those of account {account}, the settings say {settings.account}: "
            "choose other credentials (AWS_PROFILE, or --profile), or change the "
            "setting account"
        )
    return Plan(target, settings)


def plan_for(arguments: Sequence[str]) -> Plan:
    """What the CDK would deploy with these arguments. Those that do not concern us are its alone.

    Raises:
        SettingsError: a setting is wrong.
        CommandError: as `plan_of`.
    """
    parser = argparse.ArgumentParser(allow_abbrev=False, add_help=False)
    parser.add_argument("--profile")
    parser.add_argument("-c", "--context", action="append", default=[])
    given = parser.parse_known_args(arguments)[0]
    return plan_of(given_settings(given.context), given.profile)


def given_settings(contexts: Sequence[str]) -> Settings:
    """The project's settings or `cdk.json`'s, overridden by the last `longhaul=…` of `contexts`."""
    pairs = (each.partition("=") for each in contexts)
    values = [value for key, _, value in pairs if key == CONTEXT_KEY]
    override = values[-1] if values else None
    if (project := chosen()) is not None:
        return project.checked(override)
    usual = json.loads((sources() / "cdk.json").read_text())["context"][CONTEXT_KEY]
    return (demo() or bare()).checked(merged(usual, override))
