import json
import re
from pathlib import Path

import pytest
from pydantic import JsonValue

from longhaul.config.cdk_context import load
from longhaul.config.errors import SettingsError
from longhaul.config.stages import StageDeployment, pascal, queue_prefix


def test_the_docs_examples_of_pipelines_are_valid() -> None:
    page = Path(__file__).parents[2].joinpath("docs/stages.md").read_text("utf-8")
    examples = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
    found = [
        [(each.name, each.next, each.join) for each in load(None, json.loads(example)).stages]
        for example in examples
    ]
    assert found == [
        [("main", ("clean",), False), ("clean", ("delays",), False), ("delays", (), True)],
        [
            ("plan", ("fetch",), False),
            ("fetch", ("clean",), False),
            ("clean", ("report",), False),
            ("report", (), "plan"),
        ],
    ]


@pytest.mark.parametrize(
    ("stage", "problem"),
    [
        (
            {"advanced": {"timeout_s": 172_800}},
            "timeout_s (172,800) is above limits.max_timeout_s (86,400); raise the limit",
        ),
        (
            {"size": "large", "advanced": {"limits": {"max_size": "medium"}}},
            "size large is above advanced.limits.max_size (medium); raise the limit",
        ),
        (
            {"advanced": {"max_attempts": 11}},
            "max_attempts (11) is above limits.max_attempts (10); raise the limit",
        ),
        (
            {"advanced": {"stall_timeout_s": 700, "limits": {"max_stall_timeout_s": 600}}},
            "stall_timeout_s (700) is above limits.max_stall_timeout_s (600); raise the limit",
        ),
        (
            {"job": "flights_clean", "advanced": {"limits": {"jobs": ["sql"]}}},
            "the job 'flights_clean' is not in advanced.limits.jobs (sql); add it",
        ),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_the_defaults_of_a_stage_are_within_its_limits(
    stage: dict[str, JsonValue], problem: str
) -> None:
    with pytest.raises(SettingsError) as refused:
        load(None, {"stages": [{"name": "main", **stage}]})
    assert str(refused.value).partition(": ")[2] == problem


def test_the_stall_timeout_of_a_stage_has_room_for_late_reports() -> None:
    with pytest.raises(SettingsError, match=r"'main': stall_timeout_s \(39\) is .* at least 40"):
        load(None, {"stages": [{"name": "main", "advanced": {"stall_timeout_s": 39}}]})


@pytest.mark.parametrize("name", ["slots", "join"])
def test_no_stage_has_the_name_of_keys_that_no_task_may_write(name: str) -> None:
    with pytest.raises(SettingsError, match=f"stage '{name}' would have its jobs under keys that"):
        load(None, {"stages": [{"name": "main"}, {"name": name}]})


def test_what_follows_may_write_where_it_is_sent() -> None:
    stages = [
        {"name": "main", "next": ["clean"]},
        {
            "name": "clean",
            "job": "flights_clean",
            "advanced": {"limits": {"output_prefixes": ["clean/"]}},
        },
    ]
    with pytest.raises(SettingsError, match="add 'stages/clean/' to its limits"):
        load(None, {"stages": stages})


@pytest.mark.parametrize(
    ("stage", "problem"),
    [
        ({"follow_on": {"output": "table://elsewhere/flights"}}, "in a database that is neither"),
        (
            {"follow_on": {"output": "table://longhaul/flights", "mode": "overwrite"}},
            "would replace",
        ),
        (
            {"follow_on": {"output": "table://longhaul/flights", "mode": "error"}},
            "or fail on it",
        ),
        (
            {
                "follow_on": {"output": "table://longhaul/flights"},
                "advanced": {"engine": "emr-serverless"},
            },
            "whose jobs write to no tables",
        ),
        (
            {
                "follow_on": {"output": "table://longhaul/flights"},
                "advanced": {"limits": {"output_prefixes": ["tables/longhaul/other/"]}},
            },
            "add 'tables/longhaul/flights/' to its limits.output_prefixes",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_follows_may_write_to_the_table_of_its_stage(
    stage: dict[str, JsonValue], problem: str
) -> None:
    main = {"name": "main", "next": ["clean"]}

    with pytest.raises(SettingsError, match=re.escape(problem)):
        load(None, {"stages": [main, {"name": "clean", "job": "flights_clean", **stage}]})


def test_the_table_of_what_follows_is_read_by_the_next_stage() -> None:
    follow_on = {"output": "table://longhaul/flights"}
    clean = {"name": "clean", "job": "flights_clean", "follow_on": follow_on, "next": ["sum"]}
    last = {"name": "sum", "job": "daily_delays", "advanced": {"engine": "emr-serverless"}}

    with pytest.raises(SettingsError, match="'sum' runs on emr-serverless, whose jobs read no"):
        load(None, {"stages": [{"name": "main", "next": ["clean"]}, clean, last]})


def test_the_table_of_what_follows_is_that_of_a_stage_that_follows() -> None:
    follow_on = {"output": "table://longhaul/flights"}

    with pytest.raises(SettingsError, match="no stage leads to it"):
        load(None, {"stages": [{"name": "main", "follow_on": follow_on}]})
    join = {"name": "sum", "job": "daily_delays", "join": True}
    stages = [
        {"name": "main", "next": ["clean"]},
        {"name": "clean", "job": "flights_clean", "follow_on": follow_on, "next": ["sum"]},
        {**join, "follow_on": {"output": "table://longhaul/delays", "mode": "overwrite"}},
    ]
    assert load(None, {"stages": stages}).stages[2].follow_on.mode == "overwrite"


def test_a_stages_name_in_outputs_has_no_hyphens() -> None:
    assert pascal("clean-up") == "CleanUp"


def test_a_stage_with_a_hyphen_keeps_the_queues_that_its_prefix_names() -> None:
    stages = [{"name": "clean-up", "advanced": {"queue_prefix": "Longhaul-clean-up"}}]
    (stage,) = load(None, {"stages": stages}).stages

    assert queue_prefix("Longhaul", stage) == "Longhaul-clean-up"


def test_two_stacks_never_ask_for_the_same_queues() -> None:
    names = ["Longhaul", "Longhaul-b", "Longhaul-b-c", "L"]
    stages = ["main", "b", "bmain", "c", "cmain"]
    prefixes = [
        queue_prefix(name, StageDeployment(name=stage)) for name in names for stage in stages
    ]

    assert len(set(prefixes)) == len(prefixes)
