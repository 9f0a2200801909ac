"""The deployment that a command speaks to: a stack, at the place that the options choose."""

import os
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import boto3
from botocore.config import Config

from longhaul.cli.place import Place, locate
from longhaul.cli.project import DEFAULT_STACK, chosen
from longhaul.config.project_file import LOCAL
from longhaul.config.sources import work_dir
from longhaul.local.credentials import FAKE_KEY
from longhaul.operations.errors import ForeignStackError, NoSuchStackError
from longhaul.operations.stack import Deployment, Stack


class Target(Stack):
    """What every command takes. Calls AWS only when something is needed."""

    # A command acts on rows of any kind, which a newer version may write in another way.
    unknown_settings = "forbid"

    def __init__(self, place: Place, stack: str | None) -> None:
        self.place = place
        key = FAKE_KEY if place.embedded else None
        session = boto3.Session(
            profile_name=place.profile,
            region_name=place.region,
            aws_access_key_id=key,
            aws_secret_access_key=key,
        )
        super().__init__(stack or DEFAULT_STACK, session)

    def __str__(self) -> str:
        where = self.where if self.place.endpoint else f"AWS, {self.region}"
        profile = f", profile {self.place.profile}" if self.place.profile else ""
        return f"stack {self.stack} on {where}{profile}"

    @property
    def where(self) -> str:
        if self.place.embedded:
            return f"the embedded AWS at {self.place.endpoint}"
        return f"{self.place.endpoint}, {self.region}" if self.place.endpoint else self.region

    def _make_client(self, service: str, config: Config) -> Any:  # noqa: ANN401 - one of boto3's clients
        make: Any = self.session.client
        return make(service, endpoint_url=self.place.endpoint, config=config)

    @cached_property
    def identity(self) -> Mapping[str, str]:
        """Whose credentials these are: Account, Arn."""
        found: Mapping[str, str] = self.client("sts").get_caller_identity()
        return found

    @cached_property
    def deployment(self) -> Deployment:
        """The stack.

        Raises:
            NoSuchStackError: there is none, with the way out; or it is not one of Longhaul.
        """
        try:
            return super().deployment
        except ForeignStackError:
            raise
        except NoSuchStackError as error:
            text = f"{error}: {self._way_out(error)}"
            raise NoSuchStackError(text, error.others) from error

    def _way_out(self, error: NoSuchStackError) -> str:
        if error.others:
            return "name one with --stack"
        if self.place.embedded:
            return "`longhaul up` deploys it"
        return "deploy it with `longhaul deploy`, or give --region, --profile or --stack"


def connect(profile: str | None, region: str | None, stack: str | None) -> Target:
    """What the options mean; where they say nothing, what the chosen project does."""
    project = chosen()
    if project is None:
        return Target(locate(profile, region, os.environ, work_dir()), stack)
    if project.env not in (None, LOCAL):  # it is deployed, and not on this machine
        region = region or project.settings.get("region")
    place = locate(profile, region, os.environ, project.work_dir)
    return Target(place, stack or project.stack_name)
