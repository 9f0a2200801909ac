from collections.abc import Iterator

import pytest
from pydantic import JsonValue

from longhaul.cli.local.aws import roles_judge
from longhaul.local.iam.judge import Judge
from tests.cdk.synthesis import Synthesis, synthesize
from tests.synthesized import once

NIGHTLY: JsonValue = {
    "expression": "cron(30 2 ? * MON-FRI *)",
    "timezone": "Europe/Berlin",
    "request": {
        "job": "flights_clean",
        "inputs": {"flights": "s3://their-input/<aws.scheduler.scheduled-time>.csv"},
        "output": "s3://<data-bucket>/nightly/",
    },
}
EACH_HOUR: JsonValue = {
    "expression": "cron(0 * * * ? *)",
    "request": {"job": "sql", "output": "s3://<data-bucket>/<aws.scheduler.scheduled-time>/"},
}
INCOMING: JsonValue = {
    "bucket": "their-input",
    "prefix": "incoming/flights/",
    "suffix": ".csv",
    "request": {
        "job": "flights_clean",
        "inputs": {"flights": "{object}"},
        "output": "s3://<data-bucket>/nightly/{object.id}/",
    },
}
WITH_EMR: dict[str, JsonValue] = {
    "emr_serverless": {"max_vcpu": 40, "idle_stop_minutes": 5},
    "stages": [{"name": "main", "slots": 10, "advanced": {"engine": "emr-serverless"}}],
}
WITH_TINY: dict[str, JsonValue] = {"sizes": {"tiny": {"memory_mib": 3538, "disk_gib": 6}}}
WITH_ENGINES: dict[str, JsonValue] = {**WITH_TINY, "emr_serverless": {}}
NOTIFIED = {
    "main": "arn:aws:sqs:eu-central-1:123456789012:ended",
    "topic": "arn:aws:sns:eu-west-1:210987654321:ended.fifo",
    "bus": "arn:aws:events:eu-central-1:210987654321:event-bus/ours",
}
"""What is told that a job has ended, by stage: one of each kind."""
SECRET = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:shop/db-AbCd12"
WITH_ALL: dict[str, JsonValue] = {
    **WITH_EMR,
    "own_database": False,
    "table_databases": ["their_lake"],
    "stages": [
        {
            "name": name,
            "schedule": EACH_HOUR,
            "advanced": {"notify": target, "secrets": {"A": SECRET}},
        }
        for name, target in NOTIFIED.items()
    ],
}
KEYS = {
    "their-input": "arn:aws:kms:eu-central-1:210987654321:key/in",
    "their-output": "arn:aws:kms:eu-central-1:123456789012:key/out",
    "their-code": "arn:aws:kms:eu-west-1:123456789012:key/mrk-code",
}
SIGNING = "arn:aws:lambda:eu-central-1:123456789012:code-signing-config:csc-0123456789abcdef0"
VARIED: dict[str, JsonValue] = {
    "architecture": "x86_64",
    "image_compression": "zstd",
    "account": "123456789012",
    "region": "eu-central-1",
    "log_retention_days": 3653,
    "alarm_emails": ["a@example.com", "b@example.com"],
    "lease": {"stop_timeout_s": 60, "beat_ceiling_s": 290},
    "stages": [
        {"name": "main"},
        {
            "name": "clean_up",
            "slots": 3,
            "schedule": NIGHTLY,
            "advanced": {
                "max_wait_s": 3600,
                "alarms": ["flights_clean: bad_rows > 100", "flights_clean: share <= 0.5"],
                "limits": {
                    "max_size": "large",
                    "max_timeout_s": 28_800,
                    "jobs": ["flights_clean", "jobs/nightly/"],
                    "input_prefixes": ["s3://their-input/"],
                    "output_prefixes": ["nightly/"],
                },
                "on_object": INCOMING,
            },
        },
    ],
    "input_buckets": ["their-input"],
    "output_buckets": ["their-output"],
    "table_databases": ["their_lake"],
    "job_prefixes": ["s3://their-code/production/", "jobs/"],
    "kms_keys": {bucket: [key] for bucket, key in KEYS.items()},
    "sizes": {
        "small": {"cpu": 512, "memory_mib": 2048, "disk_gib": 20},
        "xlarge": {"cpu": 32_768, "memory_mib": 249_856, "disk_gib": 200},
    },
    "network": {
        "vpc_id": "vpc-0123456789abcdef0",
        "subnet_ids": ["subnet-0123456789abcdef0"],
        "assign_public_ip": False,
    },
    "functions_in_vpc": True,
    "code_signing": SIGNING,
    "pip_index": "https://pypi.example.com/simple",
}

KEY = "arn:aws:kms:eu-central-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"
CATALOG_KEY = "arn:aws:kms:eu-central-1:123456789012:key/catalog"
GUARDED: dict[str, JsonValue] = {
    "kms_key": KEY,
    "versions_days": 7,
    "access_log_bucket": "their-logs",
    "network": {"flow_logs": True, "zones": ["eu-central-1b", "eu-central-1c"]},
    "optimized_tables": ["delays", "flights"],
    "stages": [{"name": "main"}, {"name": "old", "advanced": {"retired": True}}],
    "table_databases": ["their_lake"],
    "lake_formation": True,
    "catalog_key": CATALOG_KEY,
    "permissions_boundary": "arn:aws:iam::123456789012:policy/platform/workloads",
    "role_name_prefix": "platform-",
    "role_path": "/workloads/spark/",
    "bootstrap_qualifier": "acme",
}


@pytest.fixture(scope="session")
def judge() -> Iterator[Judge]:
    judge = Judge(roles_judge())
    yield judge
    judge.close()


@pytest.fixture(scope="session")
def usual(tmp_path_factory: pytest.TempPathFactory) -> Synthesis:
    """The stack with the settings of `cdk.json`."""
    return _synthesis(tmp_path_factory, "usual", {}, assets=True)


@pytest.fixture(scope="session")
def with_emr(tmp_path_factory: pytest.TempPathFactory) -> Synthesis:
    """The usual stack with the engine emr-serverless as the default of its stage."""
    return _synthesis(tmp_path_factory, "with-emr", WITH_EMR, assets=True)


@pytest.fixture(scope="session")
def with_engines(tmp_path_factory: pytest.TempPathFactory) -> Synthesis:
    """All engines."""
    return _synthesis(tmp_path_factory, "with-engines", WITH_ENGINES, assets=True)


@pytest.fixture(scope="session")
def with_tiny(tmp_path_factory: pytest.TempPathFactory) -> Synthesis:
    """The usual stack with the size tiny."""
    # The places of the assets are compared with those of the usual stack.
    return _synthesis(tmp_path_factory, "with-tiny", WITH_TINY, assets=True)


@pytest.fixture(scope="session")
def with_all(tmp_path_factory: pytest.TempPathFactory) -> Synthesis:
    """A stack with both engines and others' tables, that tells others of its jobs' ends."""
    return _synthesis(tmp_path_factory, "with-all", WITH_ALL)


@pytest.fixture(scope="session")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Synthesis:
    """The usual stack with all that a platform team may ask for."""
    return _synthesis(tmp_path_factory, "guarded", GUARDED)


@pytest.fixture(scope="session")
def varied(tmp_path_factory: pytest.TempPathFactory) -> Synthesis:
    """The stack with other settings: two stages, x86, more buckets, an existing network."""
    return _synthesis(tmp_path_factory, "varied", VARIED)


def _synthesis(
    factory: pytest.TempPathFactory,
    name: str,
    settings: dict[str, JsonValue],
    *,
    assets: bool = False,
) -> Synthesis:
    return Synthesis(
        once(factory, name, lambda folder: synthesize(folder, settings, assets=assets))
    )
