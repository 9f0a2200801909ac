"""One synthesis per session and set of settings: each costs seconds of Node."""

import pytest
from pydantic import JsonValue

from tests.infra.synthesis import Synthesis, synthesize

NIGHTLY: JsonValue = {
    "expression": "cron(30 2 ? * MON-FRI *)",
    "timezone": "Europe/Berlin",
    "request": {
        "job": "flights_clean",
        "inputs": {"flights": "s3://their-input/<aws.scheduler.scheduled-time>.csv"},
        "output": "s3://<data-bucket>/nightly/",
    },
}


@pytest.fixture(scope="session")
def usual(tmp_path_factory: pytest.TempPathFactory) -> Synthesis:
    """The stack as `cdk.json` sets it."""
    return synthesize(tmp_path_factory.mktemp("usual") / "cdk.out", {})


@pytest.fixture(scope="session")
def with_emr(tmp_path_factory: pytest.TempPathFactory) -> Synthesis:
    """The usual stack with the engine emr-serverless, which is then the default of its stage."""
    settings: dict[str, JsonValue] = {
        "emr_serverless": {"max_vcpu": 40, "idle_stop_minutes": 5},
        "stages": [{"name": "main", "slots": 10, "engine": "emr-serverless"}],
    }
    return synthesize(tmp_path_factory.mktemp("with-emr") / "cdk.out", settings)


@pytest.fixture(scope="session")
def varied(tmp_path_factory: pytest.TempPathFactory) -> Synthesis:
    """The stack with everything set otherwise: two stages, x86, other buckets, an existing network."""
    return synthesize(
        tmp_path_factory.mktemp("varied") / "cdk.out",
        {
            "architecture": "x86_64",
            "account": "123456789012",
            "region": "eu-central-1",
            "log_retention_days": 7,
            "lease": {"stop_timeout_s": 60, "skip_wait_s": 5},
            "stages": [{"name": "main"}, {"name": "clean-up", "slots": 3, "max_wait_s": 3600, "schedule": NIGHTLY}],
            "input_buckets": ["their-input"],
            "output_buckets": ["their-output"],
            "job_prefixes": ["s3://their-code/production/", "jobs/"],
            "sizes": {
                "small": {"cpu": 512, "memory_mib": 2048, "disk_gib": 20},
                "xlarge": {"cpu": 32_768, "memory_mib": 249_856, "disk_gib": 200},
            },
            "network": {
                "vpc_id": "vpc-0123456789abcdef0",
                "subnet_ids": ["subnet-0123456789abcdef0"],
                "assign_public_ip": False,
            },
        },
    )
