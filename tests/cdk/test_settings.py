import json
import re
from importlib.resources import files
from typing import Any

import pytest
from cfnlint.data.schemas.extensions import aws_ecs_taskdefinition
from pydantic import JsonValue

from docs import settings_page
from longhaul.config.cdk_context import merged
from longhaul.config.errors import SettingsError
from longhaul.config.rules import LEAST_BEAT_CEILING_S
from longhaul.config.settings import Settings
from longhaul.config.sizes import FARGATE_MEMORY_MIB
from longhaul.core.beat import interval_s
from longhaul.core.settings import LeaseSettings
from tests.projects import checked

SMALL = {"cpu": 1024, "memory_mib": 4096}


@pytest.mark.parametrize(
    "override", [{"lease": {"beat_floor_s": 2}}, '{"lease": {"beat_floor_s": 2}}'], ids=["", "text"]
)
def test_an_override_changes_single_settings_and_leaves_their_neighbours(
    override: JsonValue,
) -> None:
    usual: dict[str, JsonValue] = {"lease": {"beat_floor_s": 20, "defer_min_s": 7}, "stages": []}
    assert merged(usual, override) == {
        "lease": {"beat_floor_s": 2, "defer_min_s": 7},
        "stages": [],
    }


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("{", 'longhaul: is no object, as in cdk.json: "{" (Expecting property name'),
        ("[1]", 'longhaul: is no object, as in cdk.json: "[1]"'),
        (7, "longhaul: is no object, as in cdk.json: 7"),
        (
            {"foo": 1},
            (
                "longhaul.foo: is not a setting; "
                "allowed here: access_log_bucket, account, alarm_emails, allow_file_paths, "
            ),
        ),
        (
            {"lease": {"beat": 1}},
            "longhaul.lease.beat: is not a setting; did you mean beat_floor_s? allowed here: ",
        ),
        (
            {"sizes": {"tyni": {}}},
            "longhaul.sizes.tyni: is not a setting; did you mean tiny? allowed here: large, ",
        ),
        (
            {"network": {"vpc": 1}},
            "longhaul.network.vpc: is not a setting; did you mean vpc_id? allowed here: ",
        ),
        (
            {"stages": [{"slot": 1}]},
            (
                "longhaul.stages.0.slot: is not a setting; did you mean slots? "
                "allowed here: advanced, follow_on, job, join, name, next, schedule, size, slots"
            ),
        ),
        (
            {"stages": [{"spot": True}]},
            "longhaul.stages.0.spot: is one of a stage's advanced settings: write it under",
        ),
        (
            {"stages": [{"next": ["b"]}]},
            "longhaul.stages.0.next: stage 'main' leads to 'b', which is no stage; there are: main",
        ),
        (
            {
                "stages": [
                    {"name": "a", "next": ["b"], "job": "sql"},
                    {"name": "b", "next": ["a"], "job": "sql"},
                ]
            },
            "longhaul.stages: stages must not lead back to themselves: a → b → a",
        ),
        (
            {"stages": [{"name": "a", "next": ["a"], "job": "sql"}]},
            "longhaul.stages: stages must not lead back",
        ),
        (
            {"stages": [{"name": "a", "next": ["b"]}, {"name": "b"}]},
            "longhaul.stages.1.job: job: is missing, and stage b has no default; known: ",
        ),
        (
            {"stages": [{"join": True}]},
            "longhaul.stages.0.join: stage 'main' joins what comes through one stage; none leads",
        ),
        (
            {
                "stages": [
                    {"name": "a", "next": ["c"]},
                    {"name": "b", "next": ["c"]},
                    {"name": "c", "join": True, "job": "sql"},
                ]
            },
            "longhaul.stages.2.join: stage 'c' joins what comes through one stage; a, b lead to it",
        ),
        (
            {"architecture": "arm"},
            "longhaul.architecture: is \"arm\"; input should be 'arm64' or 'x86_64'",
        ),
        (
            {"log_retention_days": 8},
            "longhaul.log_retention_days: is 8; input should be 1, 3, 5, 7, 14,",
        ),
        ({"stack_name": "9lives"}, 'longhaul.stack_name: is "9lives"; string should match pattern'),
        ({"account": "12"}, 'longhaul.account: is "12"; string should match pattern'),
        (
            {"permissions_boundary": "arn:aws:iam::123456789012:role/ours"},
            'longhaul.permissions_boundary: is "arn:aws:iam::123456789012:role/ours"; string',
        ),
        (
            {"own_database": False, "optimized_tables": ["delays"]},
            "longhaul.optimized_tables: optimized_tables are tables of the stack's own database,",
        ),
        (
            {"role_name_prefix": "of the platform "},
            'longhaul.role_name_prefix: is "of the platform "; string should match pattern',
        ),
        ({"role_path": "ours"}, 'longhaul.role_path: is "ours"; string should match pattern'),
        (
            {"bootstrap_qualifier": "much-too-long"},
            'longhaul.bootstrap_qualifier: is "much-too-long"; string should match pattern',
        ),
        ({"region": "Frankfurt"}, 'longhaul.region: is "Frankfurt"; string should match pattern'),
        ({"stages": []}, "longhaul.stages: is []; tuple should have at least 1 item"),
        (
            {"stages": [{"slots": "2"}]},
            'longhaul.stages.0.slots: is "2"; input should be a valid integer',
        ),
        (
            {"stages": [{"slots": 0}]},
            "longhaul.stages.0.slots: is 0; input should be greater than or equal to 1",
        ),
        (
            {"stages": [{"advanced": {"timeout_s": 604_801}}]},
            "longhaul.stages.0.advanced.timeout_s: is 604801; input should be less than",
        ),
        ({"stages": [{}, {}]}, "longhaul.stages.1.name: stage 'main' clashes with stage 'main'"),
        (
            {
                "stages": [
                    {
                        "advanced": {
                            "notify": "https://sqs.eu-central-1.amazonaws.com/123456789012/ended"
                        }
                    }
                ]
            },
            "longhaul.stages.0.advanced.notify: is ",
        ),
        (
            {
                "stages": [
                    {"advanced": {"notify": "arn:aws:lambda:eu-central-1:123456789012:function:f"}}
                ]
            },
            "longhaul.stages.0.advanced.notify: is ",
        ),
        (
            {
                "stages": [
                    {
                        "advanced": {
                            "notify": "arn:aws:sqs:eu-central-1:123456789012:Longhaul-main-jobs"
                        }
                    }
                ]
            },
            "longhaul.stages.0.advanced.notify: Longhaul-main-jobs is a queue of the stack",
        ),
        (
            {"stack_name": "L" * 60, "stages": [{"name": "m" * 31}]},
            "longhaul.stages.0.name: stack_name and the name of the stage make 'LLL",
        ),
        (
            {"stack_name": "Longhaul", "stages": [{"name": "b-main"}]},
            'longhaul.stages.0.name: is "b-main"; string should match pattern',
        ),
        (
            {"stages": [{}, {"name": "jobs"}]},
            "longhaul.stages.1.name: stage 'jobs' clashes with the first stage's outputs",
        ),
        (
            {
                "stages": [
                    {"name": "a", "next": ["b"]},
                    {"name": "b", "job": "sql", "advanced": {"retired": True}},
                ]
            },
            "longhaul.stages.1.advanced.retired: stage 'a' leads to 'b', which is retired:",
        ),
        (
            {
                "stages": [
                    {
                        "name": "a",
                        "schedule": {"expression": "rate(1 day)", "request": {"job": "sql"}},
                        "advanced": {"retired": True},
                    },
                ]
            },
            "longhaul.stages.0.advanced.retired: stage 'a' is retired, and its schedule or",
        ),
        (
            {"lease": {"beat_ceiling_s": 219}},
            "longhaul.lease.beat_ceiling_s: beat_ceiling_s (219) is below 255: a job of 7 days",
        ),
        (
            {"lease": {"stop_timeout_s": 121}},
            "longhaul.lease.stop_timeout_s: is 121; input should be less than",
        ),
        (
            {"input_buckets": ["No_Bucket"]},
            'longhaul.input_buckets.0: is "No_Bucket"; string should match pattern',
        ),
        (
            {"table_databases": ["Lake-House"]},
            'longhaul.table_databases.0: is "Lake-House"; string should match pattern',
        ),
        ({"sizes": {"small": {"cpu": 1024}}}, "longhaul.sizes.small.memory_mib: is missing"),
        (
            {"sizes": {"small": {**SMALL, "cpu": 3}}},
            "longhaul.sizes.small: is not sold by Fargate; allowed as cpu: 256,",
        ),
        (
            {"sizes": {"small": {**SMALL, "memory_mib": 5000}}},
            ("longhaul.sizes.small: is not sold by Fargate; allowed with cpu 1024: 2048, 3072,"),
        ),
        (
            {"sizes": {"small": {**SMALL, "disk_gib": 19}}},
            "longhaul.sizes.small.disk_gib: is 19; input should be",
        ),
        (
            {"sizes": {"small": {**SMALL, "disk_gib": 201}}},
            "longhaul.sizes.small.disk_gib: is 201; input should be",
        ),
        (
            {"sizes": {"small": {"cpu": 256, "memory_mib": 1536}}},
            ("longhaul.sizes.small: is not sold by Fargate; allowed with cpu 256: 512,"),
        ),
        (
            {"sizes": {"medium": {"cpu": 4096, "memory_mib": 16384, "disk_gib": 21}}},
            "longhaul.sizes.medium: medium (16384 MiB, 21 GiB of disk) must have more memory",
        ),
        (
            {"kms_keys": {"theirs": ["alias/theirs"]}},
            'longhaul.kms_keys.theirs.0: is "alias/theirs"; string should match pattern',
        ),
        (
            {
                "network": {
                    "vpc_id": "vpc-12345678",
                    "subnet_ids": ["subnet-12345678"],
                    "flow_logs": True,
                }
            },
            "longhaul.network: zones and flow_logs are of the VPC of our own, and vpc_id names one",
        ),
        (
            {"input_buckets": ["ours"], "kms_keys": {"ours": []}},
            "longhaul.kms_keys.ours: is []; tuple should have at least 1 item",
        ),
        (
            {"output_buckets": ["theirs"], "job_prefixes": ["s3://theirs/"]},
            "longhaul.job_prefixes: job_prefixes has the whole of s3://theirs/, which jobs write",
        ),
        (
            {"job_prefixes": ["s3://code/jobs"]},
            'longhaul.job_prefixes.0: is "s3://code/jobs"; string should match',
        ),
        ({"job_prefixes": ["jobs"]}, 'longhaul.job_prefixes.0: is "jobs"; string should match'),
        ({"job_prefixes": ["/"]}, 'longhaul.job_prefixes.0: is "/"; string should match'),
        (
            {"job_prefixes": ["s3://code/../"]},
            'longhaul.job_prefixes.0: is "s3://code/../"; string should match',
        ),
        (
            {"sizes": {"medium": {"cpu": 1024, "memory_mib": 4096, "disk_gib": 30}}},
            "longhaul.sizes.medium: medium (4096 MiB, 30 GiB of disk) must have more memory",
        ),
        (
            {"network": {"vpc_id": "my-vpc"}},
            'longhaul.network.vpc_id: is "my-vpc"; string should match pattern',
        ),
        (
            {"network": {"vpc_id": "vpc-01234567"}},
            "longhaul.network: vpc_id and subnet_ids belong together",
        ),
        (
            {"network": {"subnet_ids": ["subnet-01234567"]}},
            "longhaul.network: vpc_id and subnet_ids belong together",
        ),
        ({"pip_index": "https://me:secret@pypi.example.com"}, "longhaul.pip_index: "),
        (
            {"network": {"assign_public_ip": False}},
            "longhaul.network.assign_public_ip: assign_public_ip must be true without a vpc_id",
        ),
        (
            {"lease": {"beat_ceiling_s": 3_600}},
            "longhaul.lease.hand_over_age_s: with these beats a hand-over comes up to 45,960 s",
        ),
        (
            {"lease": {"hand_over_age_s": 42_900}},
            "longhaul.lease.hand_over_age_s: with these beats a hand-over comes up to 43,335 s",
        ),
        # What Lambda does not take.
        (
            {"stages": [{"size": "tiny"}]},
            "longhaul.stages.0.size: size: this stack has no tiny: its settings have no sizes.tiny",
        ),
        (
            {"sizes": {"tiny": {"memory_mib": 4096}}},
            "longhaul.sizes.small: small (4096 MiB, 30 GiB of disk) must have more memory than",
        ),
        (
            {"sizes": {"tiny": {"memory_mib": 10_241}}},
            "longhaul.sizes.tiny.memory_mib: is 10241; input should be less than or equal to 10240",
        ),
        (
            {"sizes": {"tiny": {}}, "image_compression": "zstd"},
            "longhaul.sizes.tiny: sizes.tiny needs image_compression gzip",
        ),
        # With which a job on EMR Serverless would wait for ever.
        (
            {"stages": [{"advanced": {"engine": "emr-serverless"}}]},
            "longhaul.stages.0.advanced.engine: engine: this stack has no emr-serverless; it has: ",
        ),
        (
            {"emr_serverless": {}, "sizes": {"small": {"cpu": 512, "memory_mib": 2048}}},
            "longhaul.sizes.small: sizes.small: cpu 512 is not sold by EMR Serverless",
        ),
        (
            {"emr_serverless": {"work_area": "file:"}},
            "longhaul.emr_serverless.work_area: emr_serverless.work_area is a disk, which",
        ),
    ],
    ids=lambda value: json.dumps(value) if not isinstance(value, str) else "",
)
def test_a_wrong_setting_is_refused_with_its_name_the_reason_and_what_is_allowed(
    override: JsonValue, message: str
) -> None:
    with pytest.raises(SettingsError) as refused:
        checked(override)

    assert str(refused.value).startswith(message)
    assert "\n" not in str(refused.value)


def test_the_shortest_beats_of_the_longest_job_fit_the_history() -> None:
    lease = {"beat_ceiling_s": LEAST_BEAT_CEILING_S, "beat_fraction": 0.02}
    times = checked({"lease": {**lease, "hand_over_age_s": 36_000}}).lease
    age_s = beats = 0
    while age_s < 604_800:
        age_s += interval_s(age_s, times)
        beats += 1

    assert beats * 9 < 0.92 * 25_000


def test_the_local_profile_may_beat_every_few_seconds() -> None:
    # Its executions are the embedded AWS's, and its jobs last for minutes.
    lease: JsonValue = {"beat_floor_s": 2, "beat_ceiling_s": 10}

    assert checked({"allow_file_paths": True, "lease": lease}).lease.beat_ceiling_s == 10


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        (
            {"foo": 1, "architecture": "arm", "stages": [{"slots": "2"}]},
            ["architecture", "stages.0.slots", "foo"],
        ),
        # What they mean wrongly for each other.
        (
            {
                "stages": [
                    {"size": "tiny", "advanced": {"timeout_s": 172_800, "engine": "emr-serverless"}}
                ]
            },
            ["stages.0.size", "stages.0.advanced.engine", "stages.0.advanced.timeout_s"],
        ),
    ],
    ids=["alone", "together"],
)
def test_every_wrong_setting_is_named_at_once(settings: JsonValue, named: list[str]) -> None:
    with pytest.raises(SettingsError) as refused:
        checked(settings)

    lines = str(refused.value).splitlines()
    assert [line.split(":")[0] for line in lines] == [f"longhaul.{each}" for each in named]


def test_the_table_of_fargates_sizes_equals_that_of_cfn_lint() -> None:
    rules = json.loads((files(aws_ecs_taskdefinition) / "fargate_cpu_memory.json").read_text())[
        "then"
    ]["anyOf"]
    known: dict[int, list[int]] = {}
    for rule in (each["properties"] for each in rules):
        memory = rule["Memory"]["then"]
        known[int(rule["Cpu"]["then"]["enum"][0])] = memory.get("enum") or list(
            range(memory["minimum"], memory["maximum"] + 1, memory["multipleOf"])
        )
    assert {cpu: list(memory) for cpu, memory in FARGATE_MEMORY_MIB.items()} == known


@pytest.mark.parametrize(
    "target",
    [
        "arn:aws:sqs:eu-central-1:123456789012:ended",
        "arn:aws:sqs:eu-central-1:210987654321:Longhaul-main-jobs",  # of another account
        "arn:aws:sns:us-east-1:210987654321:ended.fifo",
        "arn:aws-us-gov:events:us-gov-west-1:123456789012:event-bus/default",
        "arn:aws:events:eu-central-1:123456789012:event-bus/aws.partner/them/bus",
    ],
)
def test_a_queue_a_topic_or_a_bus_of_any_account_may_be_notified(target: str) -> None:
    stage = {"name": "main", "advanced": {"notify": target}}
    settings = Settings.model_validate({"account": "123456789012", "stages": [stage]})

    assert settings.stages[0].advanced.notify == target


# docs/reference/settings.md: each field of each model, with default, range and reason.


def test_the_page_is_what_the_models_say() -> None:
    text = settings_page.PAGE.read_text("utf-8")
    assert text == settings_page.page(text), "run `python -m docs.settings_page`"


def test_the_pages_name_no_time_of_the_lease_that_does_not_exist() -> None:
    named = {
        name
        for page in settings_page.PAGE.parents[1].rglob("*.md")
        for name in re.findall(r"`lease\.(\w+)`", page.read_text("utf-8"))
    }
    assert set() < named <= set(LeaseSettings.model_fields)


@pytest.mark.parametrize(
    "lease",
    [
        {
            "beat_floor_s": 5,
            "visibility_margin_s": 30,
            "backoff_base_s": 2,
            "backoff_cap_s": 30,
        },
        {
            "beat_fraction": 0.5,
            "beat_ceiling_s": 1_500,
            "hand_over_age_s": 39_000,
            "progress_period_s": 30,
        },
    ],
    ids=["failover", "fewest calls"],
)
def test_what_the_page_recommends_is_allowed(lease: dict[str, Any]) -> None:
    checked({"lease": lease})
    for name, value in lease.items():
        assert f"`lease.{name}` {value}" in " ".join(settings_page.PAGE.read_text("utf-8").split())
