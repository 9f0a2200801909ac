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


TABLE: dict[str, JsonValue] = {"output": "table://longhaul/flights"}
MAIN: dict[str, JsonValue] = {"name": "main", "next": ["clean"]}
JOIN: dict[str, JsonValue] = {"name": "sum", "job": "daily_delays", "join": True}


def clean(**settings: JsonValue) -> dict[str, JsonValue]:
    return {"name": "clean", "job": "flights_clean", **settings}


@pytest.mark.parametrize(
    ("stages", "problem"),
    [
        (
            [MAIN, clean(advanced={"limits": {"output_prefixes": ["clean/"]}})],
            "add 'stages/clean/' to its limits",
        ),
        (
            [MAIN, clean(follow_on={"output": "table://elsewhere/flights"})],
            "in a database that is neither",
        ),
        (
            [MAIN, clean(follow_on={**TABLE, "mode": "overwrite"})],
            "would replace",
        ),
        ([MAIN, clean(follow_on={**TABLE, "mode": "error"})], "or fail on it"),
        (
            [MAIN, clean(follow_on=TABLE, advanced={"engine": "emr-serverless"})],
            "whose jobs write to no tables",
        ),
        (
            [
                MAIN,
                clean(
                    follow_on=TABLE,
                    advanced={"limits": {"output_prefixes": ["tables/longhaul/other/"]}},
                ),
            ],
            "add 'tables/longhaul/flights/' to its limits.output_prefixes",
        ),
        (
            [
                MAIN,
                clean(follow_on=TABLE, next=["sum"]),
                {"name": "sum", "job": "sql", "advanced": {"engine": "emr-serverless"}},
            ],
            "'sum' runs on emr-serverless, whose jobs read no",
        ),
        ([{"name": "main", "follow_on": TABLE}], "no stage leads to it"),
        ([{"name": "main"}, {"name": "slots"}], "would have its jobs under keys that"),
        ([{"name": "main"}, {"name": "join"}], "would have its jobs under keys that"),
        (
            [{"name": "main", "advanced": {"stall_timeout_s": 39}}],
            "stage 'main': stall_timeout_s (39) is too short",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_stages_whose_jobs_could_not_run_are_refused(stages: list[JsonValue], problem: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(problem)):
        load(None, {"stages": stages})


def test_a_join_may_replace_its_table() -> None:
    last: JsonValue = {
        **JOIN,
        "follow_on": {"output": "table://longhaul/delays", "mode": "overwrite"},
    }
    assert load(None, {"stages": [MAIN, clean(follow_on=TABLE, next=["sum"]), last]})


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
