"""Where AWS is: an account, an endpoint, or the embedded AWS of this machine."""

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

from botocore.exceptions import ProfileNotFound
from botocore.session import Session

from longhaul.cli.errors import CommandError, ExitStatus
from longhaul.local import running
from longhaul.local.running import REGION


@dataclass(frozen=True)
class Place:
    """Where AWS is.

    `endpoint` is None for AWS itself. `embedded`: on this machine, with fake credentials.
    """

    endpoint: str | None
    region: str | None
    profile: str | None
    embedded: bool


def locate(
    profile: str | None,
    region: str | None,
    environment: Mapping[str, str],
    work_dir: Path,
) -> Place:
    """Choose the place: `docs/reference/cli.md` has the order in which these count."""
    endpoint = environment.get("AWS_ENDPOINT_URL") or None
    if endpoint and not urlsplit(endpoint).hostname:
        raise CommandError(
            f"AWS_ENDPOINT_URL is {endpoint}: write http://HOST:PORT", ExitStatus.USAGE
        )
    if endpoint is None and profile is None and region is None:
        address = running.find(work_dir)
        if address is not None:
            return Place(address.endpoint, address.region, None, embedded=True)
    region = region or environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION")
    if endpoint is not None and profile is None and _is_this_machine(endpoint):
        return Place(endpoint, region or REGION, None, embedded=True)
    # That of a profile has its credentials, even where it is on this machine.
    return Place(endpoint or _endpoint_of(profile), region, profile, embedded=False)


def _endpoint_of(profile: str | None) -> str | None:
    """The endpoint that the profile names; boto3 would follow it without a word."""
    try:
        return Session(profile=profile).get_scoped_config().get("endpoint_url") or None
    except ProfileNotFound:  # the target's session says so
        return None


def _is_this_machine(endpoint: str) -> bool:
    host = urlsplit(endpoint).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
