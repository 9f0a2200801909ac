"""How clients and child processes reach the embedded AWS, and only it.

No account knows the credentials. Those of a role are its session's, and `iam.gate` judges what is
done with them; anybody else is an administrator here.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol

import boto3

FAKE_KEY = "local"


@dataclass(frozen=True)
class Credentials:
    key: str
    secret: str
    token: str | None = None


ADMINISTRATOR: Final = Credentials(FAKE_KEY, FAKE_KEY)


class NotTrustedError(PermissionError):
    """A role does not trust the service that wants to use it."""

    def __init__(self, role: str, service: str) -> None:
        super().__init__(f"{service}.amazonaws.com may not assume the role {role}")
        self.role = role


class Lend(Protocol):
    """Lends roles to the services that run something with them."""

    def __call__(
        self, role: str, session: str, service: str, source: str | None = None
    ) -> Credentials:
        """Credentials of a role.

        Args:
            role: its ARN.
            session: a name for what runs with it.
            service: the one that assumes it, such as `ecs-tasks`.
            source: the ARN of the resource for which it does, where AWS tells the role's trust
                policy (`aws:SourceArn`, `aws:SourceAccount`).

        Raises:
            NotTrustedError: the trust policy of the role does not allow it.
        """


Allows = Callable[[str, str, str], bool]
"""Whether something may be done.

For a service with a role: the role, the action, the resource. By a service itself, for a rule: the
action, the resource, the rule.
"""


def allow_all(*_: str) -> bool:
    """Where roles are not enforced."""
    return True


def lend_none(role: str, session: str, service: str, source: str | None = None) -> Credentials:
    """Where roles are not enforced, everybody is the administrator."""
    del role, session, service, source
    return ADMINISTRATOR


def aws_client(
    service: str,
    *,
    endpoint: str,
    region: str,
    credentials: Credentials = ADMINISTRATOR,
    **options: Any,  # noqa: ANN401 - those of boto3's clients
) -> Any:  # noqa: ANN401 - one of boto3's clients
    """A boto3 client of the embedded AWS."""
    make: Any = boto3.client  # its overloads want a literal service name
    return make(
        service,
        endpoint_url=endpoint,
        region_name=region,
        aws_access_key_id=credentials.key,
        aws_secret_access_key=credentials.secret,
        aws_session_token=credentials.token,
        **options,
    )


def child_environment(
    endpoint: str, region: str, credentials: Credentials = ADMINISTRATOR
) -> dict[str, str]:
    """Environment variables that lead a child process to the embedded AWS."""
    token = {"AWS_SESSION_TOKEN": credentials.token} if credentials.token else {}
    return token | {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_REGION": region,
        "AWS_DEFAULT_REGION": region,
        "AWS_ACCESS_KEY_ID": credentials.key,
        "AWS_SECRET_ACCESS_KEY": credentials.secret,
        # Otherwise the user's profile or a cloud machine's metadata service could step in.
        "AWS_CONFIG_FILE": "/dev/null",
        "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
