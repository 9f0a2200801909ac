import json
import re
from importlib.resources import files
from pathlib import Path

import pytest
from cfnlint.data.schemas.extensions import aws_ecs_taskdefinition
from pydantic import JsonValue, ValidationError

from infra.settings import FARGATE_MEMORY_MIB, Settings, SettingsError, Size, load, pascal

SMALL = {"cpu": 1024, "memory_mib": 4096}


def test_no_context_at_all_gives_the_defaults() -> None:
    assert load(None, None) == Settings()


def test_single_settings_override_the_usual_ones_and_leave_their_neighbours() -> None:
    settings = load(
        {"lease": {"beat_floor_s": 20, "skip_wait_s": 7}, "architecture": "x86_64"}, {"lease": {"beat_floor_s": 2}}
    )

    assert (settings.lease.beat_floor_s, settings.lease.skip_wait_s, settings.architecture) == (2, 7, "x86_64")


def test_an_override_may_come_as_json_text_as_the_command_line_hands_it_over() -> None:
    assert load({"architecture": "arm64"}, '{"architecture": "x86_64"}').architecture == "x86_64"


def test_a_list_replaces_the_usual_one() -> None:
    settings = load({"stages": [{"name": "main", "slots": 10}]}, {"stages": [{"name": "other"}]})

    assert [(stage.name, stage.slots) for stage in settings.stages] == [("other", 10)]


def test_the_pipeline_in_the_docs_is_one() -> None:
    page = Path(__file__).parents[2].joinpath("docs/stages.md").read_text("utf-8")
    (example,) = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
    stages = load(None, json.loads(example)).stages
    assert [(each.name, each.next, each.join) for each in stages] == [
        ("main", ("clean",), False),
        ("clean", ("delays",), False),
        ("delays", (), True),
    ]


def test_settings_are_frozen() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        Settings().architecture = "x86_64"


def test_a_stage_is_called_in_outputs_without_hyphens() -> None:
    assert pascal("clean-up") == "CleanUp"


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("{", "longhaul: is not JSON (Expecting property name"),
        ("[1]", "longhaul: is [1]; allowed: an object, as in cdk.json"),
        (7, "longhaul: is 7; allowed: an object, as in cdk.json"),
        ({"foo": 1}, "longhaul.foo: is not a setting; allowed here: account, allow_file_paths, architecture,"),
        ({"lease": {"beat": 1}}, "longhaul.lease.beat: is not a setting; allowed here: backoff_base_s, "),
        ({"network": {"vpc": 1}}, "longhaul.network.vpc: is not a setting; allowed here: assign_public_ip, "),
        (
            {"stages": [{"slot": 1}]},
            "longhaul.stages.0.slot: is not a setting; allowed here: engine, job, join, max_attempts,",
        ),
        ({"stages": [{"next": ["b"]}]}, "longhaul: stage 'main' leads to 'b', which is no stage; there are: main"),
        (
            {"stages": [{"name": "a", "next": ["b"], "job": "sql"}, {"name": "b", "next": ["a"], "job": "sql"}]},
            "longhaul: stages must not lead back to themselves: a → b → a",
        ),
        ({"stages": [{"name": "a", "next": ["a"], "job": "sql"}]}, "longhaul: stages must not lead back"),
        ({"stages": [{"name": "a", "next": ["b"]}, {"name": "b"}]}, "longhaul: stage 'b' needs a `job`: what follows"),
        (
            {"stages": [{"name": "a", "next": ["b", "b"]}, {"name": "b", "job": "sql"}]},
            "longhaul: stage 'b' is named twice in one `next`",
        ),
        ({"stages": [{"join": True}]}, "longhaul: stage 'main' joins what comes through one stage; none leads to it"),
        (
            {
                "stages": [
                    {"name": "a", "next": ["c"]},
                    {"name": "b", "next": ["c"]},
                    {"name": "c", "join": True, "job": "sql"},
                ]
            },
            "longhaul: stage 'c' joins what comes through one stage; a, b lead to it",
        ),
        ({"architecture": "arm"}, "longhaul.architecture: is \"arm\"; input should be 'arm64' or 'x86_64'"),
        ({"log_retention_days": 8}, "longhaul.log_retention_days: is 8; input should be 1, 3, 5, 7, 14,"),
        ({"stack_name": "9lives"}, 'longhaul.stack_name: is "9lives"; string should match pattern'),
        ({"account": "12"}, 'longhaul.account: is "12"; string should match pattern'),
        ({"region": "Frankfurt"}, 'longhaul.region: is "Frankfurt"; string should match pattern'),
        ({"stages": []}, "longhaul.stages: is []; tuple should have at least 1 item"),
        ({"stages": [{"slots": "2"}]}, 'longhaul.stages.0.slots: is "2"; input should be a valid integer'),
        ({"stages": [{"slots": 0}]}, "longhaul.stages.0.slots: is 0; input should be greater than or equal to 1"),
        ({"stages": [{"timeout_s": 604_801}]}, "longhaul.stages.0.timeout_s: is 604801; input should be less than"),
        ({"stages": [{}, {}]}, "longhaul: stage 'main' clashes with stage 'main'"),
        (
            {"stack_name": "L" * 60, "stages": [{"name": "m" * 31}]},
            "longhaul: stack_name and the name of stage 'mmm",
        ),
        ({"stages": [{}, {"name": "jobs"}]}, "longhaul: stage 'jobs' clashes with the first stage's outputs"),
        ({"lease": {"beat_floor_s": 40, "beat_ceiling_s": 20}}, "longhaul.lease: beat_floor_s (40) must not exceed"),
        ({"lease": {"stop_timeout_s": 121}}, "longhaul.lease.stop_timeout_s: is 121; input should be less than"),
        ({"input_buckets": ["No_Bucket"]}, 'longhaul.input_buckets.0: is "No_Bucket"; string should match pattern'),
        ({"sizes": {"small": {"cpu": 1024}}}, "longhaul.sizes.small.memory_mib: is missing"),
        (
            {"sizes": {"small": {**SMALL, "cpu": 3}}},
            "longhaul.sizes.small: cpu 3 is not sold by Fargate; allowed: 256,",
        ),
        (
            {"sizes": {"small": {**SMALL, "memory_mib": 5000}}},
            "longhaul.sizes.small: memory_mib 5000 is not sold by Fargate with cpu 1024; allowed: 2048 to 8192 in steps",
        ),
        ({"sizes": {"small": {**SMALL, "disk_gib": 19}}}, "longhaul.sizes.small.disk_gib: is 19; input should be"),
        ({"sizes": {"small": {**SMALL, "disk_gib": 201}}}, "longhaul.sizes.small.disk_gib: is 201; input should be"),
        (
            {"sizes": {"small": {"cpu": 256, "memory_mib": 1536}}},
            "longhaul.sizes.small: memory_mib 1536 is not sold by Fargate with cpu 256; allowed: 512, 1024, 2048",
        ),
        (
            {"sizes": {"medium": {"cpu": 4096, "memory_mib": 16384, "disk_gib": 21}}},
            "longhaul.sizes: medium (21 GiB) must not have less disk than small (30 GiB)",
        ),
        ({"job_prefixes": ["s3://code/jobs"]}, 'longhaul.job_prefixes.0: is "s3://code/jobs"; string should match'),
        ({"job_prefixes": ["jobs"]}, 'longhaul.job_prefixes.0: is "jobs"; string should match'),
        ({"job_prefixes": ["/"]}, 'longhaul.job_prefixes.0: is "/"; string should match'),
        ({"job_prefixes": ["s3://code/../"]}, 'longhaul.job_prefixes.0: is "s3://code/../"; string should match'),
        (
            {"sizes": {"medium": {"cpu": 1024, "memory_mib": 4096}}},
            "longhaul.sizes: medium (4096 MiB) must have more memory than small (4096 MiB)",
        ),
        ({"network": {"vpc_id": "my-vpc"}}, 'longhaul.network.vpc_id: is "my-vpc"; string should match pattern'),
        ({"network": {"vpc_id": "vpc-01234567"}}, "longhaul.network: subnet_ids is missing"),
        ({"network": {"subnet_ids": ["subnet-01234567"]}}, "longhaul.network: vpc_id is missing"),
        ({"network": {"assign_public_ip": False}}, "longhaul.network: assign_public_ip must be true without a vpc_id"),
    ],
    ids=lambda value: json.dumps(value) if not isinstance(value, str) else "",
)
def test_a_wrong_setting_is_refused_with_its_name_the_reason_and_what_is_allowed(
    override: JsonValue, message: str
) -> None:
    with pytest.raises(SettingsError) as refused:
        load(None, override)

    assert str(refused.value).startswith(message)
    assert "\n" not in str(refused.value)


def test_every_wrong_setting_is_named_at_once() -> None:
    with pytest.raises(SettingsError) as refused:
        load(None, {"foo": 1, "architecture": "arm", "stages": [{"slots": "2"}]})

    assert [line.split(":")[0] for line in str(refused.value).splitlines()] == [
        "longhaul.architecture",
        "longhaul.stages.0.slots",
        "longhaul.foo",
    ]


def test_the_sizes_that_fargate_sells_are_those_that_cfn_lint_knows() -> None:
    rules = json.loads((files(aws_ecs_taskdefinition) / "fargate_cpu_memory.json").read_text())["then"]["anyOf"]
    known: dict[int, list[int]] = {}
    for rule in (each["properties"] for each in rules):
        memory = rule["Memory"]["then"]
        known[int(rule["Cpu"]["then"]["enum"][0])] = memory.get("enum") or list(
            range(memory["minimum"], memory["maximum"] + 1, memory["multipleOf"])
        )
    assert {cpu: list(memory) for cpu, memory in FARGATE_MEMORY_MIB.items()} == known


@pytest.mark.parametrize("cpu", FARGATE_MEMORY_MIB)
def test_each_of_them_is_a_size(cpu: int) -> None:
    assert [Size(cpu=cpu, memory_mib=memory).memory_mib for memory in FARGATE_MEMORY_MIB[cpu]]
