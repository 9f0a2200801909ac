"""How clients and child processes reach the embedded AWS, and only it.

The credentials are fake: moto accepts them, and no account does.
"""

from typing import Any

import boto3

FAKE_KEY = "local"


def aws_client(service: str, *, endpoint: str, region: str, **options: Any) -> Any:  # noqa: ANN401 - one of boto3's clients
    """A boto3 client of the embedded AWS."""
    make: Any = boto3.client  # its overloads want a literal service name
    return make(
        service,
        endpoint_url=endpoint,
        region_name=region,
        aws_access_key_id=FAKE_KEY,
        aws_secret_access_key=FAKE_KEY,
        **options,
    )


def child_environment(endpoint: str, region: str) -> dict[str, str]:
    """Environment variables that lead a child process to the embedded AWS."""
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_REGION": region,
        "AWS_DEFAULT_REGION": region,
        "AWS_ACCESS_KEY_ID": FAKE_KEY,
        "AWS_SECRET_ACCESS_KEY": FAKE_KEY,
        # Otherwise the user's profile or a cloud machine's metadata service could step in.
        "AWS_CONFIG_FILE": "/dev/null",
        "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
