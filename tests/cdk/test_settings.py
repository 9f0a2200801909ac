import json
import re
import tomllib
from importlib.resources import files
from typing import Any, Final

import pytest
from cfnlint.data.schemas.extensions import aws_ecs_taskdefinition
from pydantic import JsonValue

from docs import settings_page
from longhaul.config.cdk_context import merged
from longhaul.config.errors import SettingsError
from longhaul.config.rules import LEAST_BEAT_CEILING_S, problems
from longhaul.config.settings import Settings
from longhaul.config.sizes import FARGATE_MEMORY_MIB
from longhaul.config.stages import pascal, queue_prefix
from longhaul.core.beat import interval_s
from longhaul.core.settings import JOB_VARIABLES, LeaseSettings
from tests.cdk.synthesis import Synthesis, synthesize
from tests.layers import ROOT
from tests.projects import checked
from tests.synthesized import once

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


# Stages: what leads where, and what each one has.


@pytest.mark.parametrize(
    ("page", "kind", "count"), [("stages", "json", 2), ("daily", "toml", 1), ("daily", "json", 1)]
)
def test_the_stages_of_the_docs_are_valid_settings(page: str, kind: str, count: int) -> None:
    """A block has stages, or is one."""
    text = (ROOT / "docs" / f"{page}.md").read_text("utf-8")
    blocks = re.findall(rf"```{kind}\n(.*?)```", text, re.DOTALL)
    jobs = sorted({*re.findall(r'"?job"? ?[=:] "(\w+)"', text), "probe"})
    for block in blocks:
        given = (json.loads if kind == "json" else tomllib.loads)(block)
        settings = {"stack_name": "Weblogs", "stages": given.get("stages", [given])}
        assert problems(Settings.model_validate(settings), jobs) == []
    assert len(blocks) == count


TABLE: dict[str, JsonValue] = {"output": "table://longhaul/flights"}
MAIN: dict[str, JsonValue] = {"name": "main", "next": ["clean"]}
JOIN: dict[str, JsonValue] = {"name": "sum", "job": "daily_delays", "join": True}
LAST: dict[str, JsonValue] = {"name": "sum", "job": "sql"}
ON_EMR: dict[str, JsonValue] = {"engine": "emr-serverless"}


def clean(**settings: JsonValue) -> dict[str, JsonValue]:
    return {"name": "clean", "job": "flights_clean", **settings}


def main(**settings: JsonValue) -> list[JsonValue]:
    return [{"name": "main", **settings}]


@pytest.mark.parametrize(
    ("stages", "problem"),
    [
        # The defaults of a stage are within its limits.
        (
            main(advanced={"timeout_s": 172_800}),
            "advanced.timeout_s: timeout: 2d is above the ceiling of stage main, 1d (limits.max_",
        ),
        (
            main(size="large", advanced={"limits": {"max_size": "medium"}}),
            "size: size: large is above the ceiling of stage main, medium (limits.max_size)",
        ),
        (
            main(advanced={"max_attempts": 11}),
            "advanced.max_attempts: max_attempts: 11 is above the ceiling of stage main, 10",
        ),
        (
            main(advanced={"stall_timeout_s": 700, "limits": {"max_stall_timeout_s": 600}}),
            "advanced.stall_timeout_s: stall_timeout: 11m40s is above the ceiling of stage main",
        ),
        (main(advanced={"stall_timeout_s": 39}), "stall_timeout: 39s is too short for a job that"),
        (
            main(job="flights_clean", advanced={"limits": {"jobs": ["sql"]}}),
            "stages.0.job: job: stage main runs only sql (limits.jobs)",
        ),
        # What follows may run, and write where it is sent.
        (
            [MAIN, clean(advanced={"limits": {"output_prefixes": ["clean/"]}})],
            "stages.1.follow_on.output: output: stage clean writes only below s3://data/clean/",
        ),
        (
            [MAIN, clean(follow_on={"output": "table://elsewhere/flights"})],
            "follow_on.output: output: this database is not allowed; allowed: longhaul",
        ),
        ([MAIN, clean(follow_on={**TABLE, "mode": "overwrite"})], "would replace"),
        ([MAIN, clean(follow_on={**TABLE, "mode": "error"})], "or fail on it"),
        ([MAIN, clean(follow_on={"output": "data:x/{day}/"})], "stages.1.follow_on.output"),
        ([MAIN, clean(follow_on={"output": "table:hits_{label}"})], "a table has one name"),
        ([MAIN, clean(follow_on={"output": "data:x/{stage}/"})], "only one job could write there"),
        (
            [
                MAIN,
                clean(follow_on={"output": "data:{label}/"}, next=["sum"]),
                {**LAST, "follow_on": {"output": "data:{label}/sum/"}},
            ],
            "is inside the output of stage clean",
        ),
        (
            [MAIN, clean(follow_on={"output": "s3://elsewhere/{label}/"})],
            "follow_on.output: output: this bucket is not allowed",
        ),
        (
            [MAIN, clean(follow_on={"output": "data:{label}/", "mode": "overwrite"})],
            "let it be append or error",
        ),
        (
            [
                MAIN,
                clean(
                    follow_on=TABLE,
                    advanced={"limits": {"output_prefixes": ["tables/longhaul/other/"]}},
                ),
            ],
            "output: stage clean writes only below s3://data/tables/longhaul/other/",
        ),
        (main(name="slots"), "clashes with the keys of slots"),
        # A cluster writes to prefixes alone, and reads them alone.
        (
            [MAIN, clean(follow_on=TABLE, advanced=ON_EMR)],
            "jobs on emr-serverless write to prefixes alone",
        ),
        (
            [MAIN, clean(follow_on=TABLE, next=["sum"]), {**LAST, "advanced": ON_EMR}],
            "passes its outputs to sum, whose engine emr-",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_stages_whose_jobs_could_not_run_are_refused(stages: list[JsonValue], problem: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(problem)):
        checked({"stages": stages, "emr_serverless": {}})


def test_a_join_may_replace_its_table() -> None:
    last: JsonValue = {
        **JOIN,
        "follow_on": {"output": "table://longhaul/delays", "mode": "overwrite"},
    }
    assert checked({"stages": [MAIN, clean(follow_on=TABLE, next=["sum"]), last]})
    assert checked({"stages": [MAIN, clean(follow_on={"output": "data:day/{label}/{stage}-{n}/"})]})


def test_places_of_which_one_begins_like_the_other_are_beside_each_other() -> None:
    first = clean(follow_on={"output": "data:{label}"}, next=["sum"])
    last: dict[str, JsonValue] = {**LAST, "follow_on": {"output": "data:{label}s"}}
    assert checked({"stages": [MAIN, first, last]})


def test_a_stages_name_in_outputs_is_one_word() -> None:
    assert pascal("clean_up") == "CleanUp"


def test_two_stacks_never_ask_for_the_same_queues() -> None:
    names = ["Longhaul", "Longhaul-b", "Longhaul-b-c", "L"]
    stages = ["main", "b", "b_main", "c", "c_main"]
    prefixes = [queue_prefix(name, stage) for name in names for stage in stages]

    assert len(set(prefixes)) == len(prefixes)


# Variables and secrets of stages: what is refused at synth, and who may read what.


SECRET: Final = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:{}-AbCd12"
PARAMETER: Final = "arn:aws:ssm:eu-central-1:123456789012:parameter/shop/token"
STAGES: Final[list[Any]] = [
    {
        "name": "main",
        "advanced": {
            "environment": {"DB_HOST": "db.example"},
            "secrets": {"PASSWORD": f"{SECRET.format('db')}:password::", "TOKEN": PARAMETER},
        },
    },
    {
        "name": "clean",
        "advanced": {"secrets": {"A": SECRET.format("api"), "B": f"{SECRET.format('api')}:key::"}},
    },
    {"name": "none"},
    {
        "name": "theirs",
        "advanced": {
            "role": "arn:aws:iam::123456789012:role/theirs",
            "secrets": {"A": SECRET.format("api")},
        },
    },
]


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Synthesis:
    settings: dict[str, JsonValue] = {"stages": STAGES, "sizes": {"tiny": {}}}
    return Synthesis(
        once(tmp_path_factory, "variables", lambda folder: synthesize(folder, settings))
    )


@pytest.fixture(scope="module")
def on_emr(tmp_path_factory: pytest.TempPathFactory) -> Synthesis:
    settings: dict[str, JsonValue] = {"stages": STAGES[1:], "emr_serverless": {}}
    return Synthesis(
        once(tmp_path_factory, "variables-emr", lambda folder: synthesize(folder, settings))
    )


@pytest.mark.parametrize("role", ["Spark{}TaskRole", "Lambda{}JobRole"])
def test_only_the_role_of_a_stage_may_read_its_secrets(stack: Synthesis, role: str) -> None:
    def read(stage: str) -> dict[str, set[str]]:
        granted = stack.grants(role.format(stage))
        services = ("secretsmanager", "ssm", "kms")
        return {each: on for each, on in granted.items() if each.startswith(services)}

    assert read("") == {
        "secretsmanager:GetSecretValue": {SECRET.format("db")},
        "ssm:GetParameter": {PARAMETER},
    }
    assert read("Clean") == {"secretsmanager:GetSecretValue": {SECRET.format("api")}}
    assert read("None") == {}


def test_no_other_role_may_read_a_secret(stack: Synthesis) -> None:
    allowed = {
        role
        for policy in stack.resources("AWS::IAM::Policy").values()
        for role in policy["Roles"]
        if "GetSecretValue" in json.dumps(policy) or "GetParameter" in json.dumps(policy)
    }
    stages = ("", "Clean")
    assert allowed == {
        f"<{role.format(each)}>"
        for role in ("Spark{}TaskRole", "Lambda{}JobRole")
        for each in stages
    }


def _variables(holder: dict[str, Any]) -> dict[str, Any] | None:
    text = holder.get(JOB_VARIABLES)
    return None if text is None else dict(json.loads(text))


def test_tasks_know_the_variables_of_all_stages_and_a_function_those_of_its_own(
    stack: Synthesis,
) -> None:
    every = {
        each["name"]: {key: given for key, given in each["advanced"].items() if key != "role"}
        for each in STAGES
        if "advanced" in each
    }
    for each in stack.resources("AWS::ECS::TaskDefinition").values():
        (container,) = each["ContainerDefinitions"]
        named = {pair["Name"]: pair["Value"] for pair in container["Environment"]}
        assert _variables(named) == every
        # ECS would put the values into every process, and ask the execution role.
        assert "Secrets" not in container
    functions = stack.resources("AWS::Lambda::Function")
    known = {
        name: _variables(each["Environment"]["Variables"])
        for name, each in functions.items()
        if "Environment" in each
    }
    assert known["LambdaFunction"] == {"main": every["main"]}
    assert known["LambdaCleanFunction"] == {"clean": every["clean"]}
    assert known["LambdaNoneFunction"] is None
    assert known["Dispatcher"] is None


def test_a_driver_gets_them_as_its_second_argument(on_emr: Synthesis) -> None:
    run = on_emr.definition["States"]["RunUnderLease"]["Branches"][0]["States"]
    arguments = run["RunOnEmrServerless"]["Parameters"]["JobDriver"]["SparkSubmit"]
    assert "%22clean%22:%7B%22secrets%22" in arguments["EntryPointArguments"][1]


@pytest.mark.parametrize(
    ("stage", "more", "why"),
    [
        ({"environment": {"1A": "x"}}, {}, "should match pattern"),
        ({"environment": {"A-B": "x"}}, {}, "should match pattern"),
        (
            {"environment": {"A": "{{resolve:secretsmanager:shop}}"}},
            {},
            "name a secret by its ARN in secrets",
        ),
        *(
            ({"secrets": {name: PARAMETER}}, {}, "belongs to Longhaul, AWS, Spark or the system")
            for name in (
                "AWS_ACCESS_KEY_ID", "LONGHAUL_KEY", "SPARK_HOME", "PYSPARK_PYTHON", "PATH",
                "PYTHONPATH", "JAVA_TOOL_OPTIONS", "LD_PRELOAD", "ECS_AGENT_URI", "_HANDLER",
                "aws_region", "TMPDIR",
            )
        ),
        ({"environment": {"A": 1}}, {}, "string"),
        ({"secrets": {"A": "hunter22"}}, {}, "neither the ARN of a secret"),
        ({"environment": {"A": "x"}, "secrets": {"A": PARAMETER}}, {}, "leave one out"),
        ({"secrets": {"A": PARAMETER}}, {"emr_serverless": {}}, "do not reach"),
        ({"environment": {f"A{n}": "x" for n in range(51)}}, {}, "at most 50"),
    ],
)  # fmt: skip
def test_what_could_not_work_is_refused_at_synth(
    stage: dict[str, JsonValue], more: dict[str, JsonValue], why: str
) -> None:
    with pytest.raises(SettingsError, match=why):
        checked({"stages": [{"name": "main", "advanced": stage}], **more})
