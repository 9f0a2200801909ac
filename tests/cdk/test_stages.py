import json
import re
import tomllib

import pytest
from pydantic import JsonValue

from longhaul.config.errors import SettingsError
from longhaul.config.rules import problems
from longhaul.config.settings import Settings
from longhaul.config.stages import pascal, queue_prefix
from tests.layers import ROOT
from tests.projects import checked


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


def test_a_stages_name_in_outputs_is_one_word() -> None:
    assert pascal("clean_up") == "CleanUp"


def test_two_stacks_never_ask_for_the_same_queues() -> None:
    names = ["Longhaul", "Longhaul-b", "Longhaul-b-c", "L"]
    stages = ["main", "b", "b_main", "c", "c_main"]
    prefixes = [queue_prefix(name, stage) for name in names for stage in stages]

    assert len(set(prefixes)) == len(prefixes)
