"""Where AWS is: an account, an endpoint, or the embedded AWS of this machine."""

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from botocore.exceptions import ProfileNotFound
from botocore.session import Session

from longhaul.cli.errors import CommandError, ExitStatus
from longhaul.local import running
from longhaul.local.running import REGION

_ENDPOINT = "AWS_ENDPOINT_URL"
_IGNORED = "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"


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
    """Choose the place: `docs/reference/cli.md` has the order in which these count.

    Raises:
        CommandError: an endpoint is configured for a single service.
    """
    configured = _Configured(profile, environment)
    if not configured.ignored:
        _refuse(sorted(name for name in environment if name.startswith(f"{_ENDPOINT}_")))
    endpoint = None if configured.ignored else environment.get(_ENDPOINT) or None
    if endpoint is None and profile is None and region is None:
        address = running.find(work_dir)
        if address is not None:
            return Place(address.endpoint, address.region, None, embedded=True)
    region = region or environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION")
    if endpoint is not None and profile is None and _is_this_machine(endpoint):
        return Place(endpoint, region or REGION, None, embedded=True)
    if not configured.ignored:
        _refuse(configured.of_services)
        # Its credentials are those of the profile, even where it is on this machine.
        endpoint = endpoint or configured.endpoint
    return Place(endpoint, region, profile, embedded=False)


class _Configured:
    """The endpoints in the files of AWS's profiles, and whether endpoints are ignored."""

    def __init__(self, profile: str | None, environment: Mapping[str, str]) -> None:
        session = Session(profile=profile)
        for name, variable in (
            ("config_file", "AWS_CONFIG_FILE"),
            ("credentials_file", "AWS_SHARED_CREDENTIALS_FILE"),
        ):
            if variable in environment:
                session.set_config_variable(name, environment[variable])
        self._session = session
        self._environment = environment

    @property
    def _profile(self) -> Mapping[str, Any]:
        try:
            return self._session.get_scoped_config()
        except ProfileNotFound:  # the target's session says so
            return {}

    @property
    def ignored(self) -> bool:
        """Whether AWS's SDKs are told to ignore endpoints in variables and files."""
        value = self._environment.get(_IGNORED)
        if value is None:
            value = self._profile.get("ignore_configured_endpoint_urls", "")
        return value.lower() == "true"

    @property
    def endpoint(self) -> str | None:
        return self._profile.get("endpoint_url") or None

    @property
    def of_services(self) -> list[str]:
        """The services with an endpoint of their own, as a sentence names them."""
        section = self._profile.get("services")
        services = self._session.full_config.get("services", {}).get(section, {})
        return sorted(
            f"endpoint_url of {name} in [services {section}]"
            for name, settings in services.items()
            if isinstance(settings, Mapping) and settings.get("endpoint_url")
        )


def _refuse(of_services: list[str]) -> None:
    """A deployment is in one place, and every change names it."""
    if of_services:
        raise CommandError(
            f"{', '.join(of_services)}: a command speaks to one place, not to another for each "
            f"service; unset it, set {_ENDPOINT}, or set {_IGNORED}=true",
            ExitStatus.USAGE,
        )


def _is_this_machine(endpoint: str) -> bool:
    host = urlsplit(endpoint).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
