"""What every driver is given."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from longhaul.local.credentials import (
    ADMINISTRATOR,
    Credentials,
    Lend,
    aws_client,
    child_environment,
    lend_none,
)
from longhaul.local.log_shipper import LogShipper


@dataclass(frozen=True)
class Host:
    """The embedded AWS as its drivers and their programs see it."""

    endpoint: str
    region: str
    work_dir: Path
    shipper: LogShipper
    lend: Lend = lend_none

    def environment(self, credentials: Credentials = ADMINISTRATOR) -> dict[str, str]:
        """Variables that lead a child process here."""
        return child_environment(self.endpoint, self.region, credentials)

    def client(self, service: str, credentials: Credentials) -> Any:  # noqa: ANN401 - one of boto3's
        return aws_client(
            service, endpoint=self.endpoint, region=self.region, credentials=credentials
        )
