"""How to reach the embedded AWS: credentials that moto accepts and that are worthless anywhere else, never taken from the surroundings."""

from typing import Any

import boto3

FAKE_KEY = "local"


def aws_client(service: str, *, endpoint: str, region: str, **options: Any) -> Any:  # noqa: ANN401 - one of boto3's clients
    """A boto3 client of the embedded AWS."""
    make: Any = boto3.client  # typed per service by its literal name, which is not known here
    return make(
        service,
        endpoint_url=endpoint,
        region_name=region,
        aws_access_key_id=FAKE_KEY,
        aws_secret_access_key=FAKE_KEY,
        **options,
    )


def child_environment(endpoint: str, region: str) -> dict[str, str]:
    """The variables with which a child process finds the embedded AWS, and only it."""
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_REGION": region,
        "AWS_DEFAULT_REGION": region,
        "AWS_ACCESS_KEY_ID": FAKE_KEY,
        "AWS_SECRET_ACCESS_KEY": FAKE_KEY,
        # Neither a profile of the user nor the metadata service of a cloud machine may step in.
        "AWS_CONFIG_FILE": "/dev/null",
        "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
