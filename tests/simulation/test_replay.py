"""The arguments of `python -m simulation.tools.replay`."""

from argparse import ArgumentTypeError
from pathlib import Path

import pytest

from simulation.tools.replay import read
from simulation.worlds.generation import plan_of
from simulation.worlds.systematic import PIPELINES, RACES, SCENARIOS


@pytest.mark.parametrize("name", [*SCENARIOS, *PIPELINES, *RACES])
def test_plan_is_read_as_it_is_written(name: str) -> None:
    plan = {**SCENARIOS, **PIPELINES, **RACES}[name]
    assert read(plan.to_json()) == plan


def test_every_drawn_plan_is_read_as_it_is_written() -> None:
    plans = [plan_of(seed) for seed in range(300)]

    assert [read(plan.to_json()) for plan in plans] == plans


def test_world_is_named_by_a_seed_a_plan_or_a_file(tmp_path: Path) -> None:
    file = tmp_path / "world.json"
    file.write_text(plan_of(17).to_json())
    assert read("17") == read(str(file)) == plan_of(17)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("nothing", "neither a seed nor a plan, and no file"),
        ("{bad", "the text: Invalid JSON"),
        ('{"jobs": [{"name": "j0", "colour": 3}]}', "jobs.0.colour"),
        ('{"acts": [{"at_s": 1, "kind": "fly"}]}', "there is no act 'fly', only submit"),
        ('{"acts": [{"at_s": 1, "kind": "cancel", "job": "j0"}]}', "there is no job 'j0'"),
        (
            '{"jobs": [{"name": "j0", "endings": [{"kind": "well"}]}]}',
            "no job ends with 'well', only with crashes",
        ),
    ],
)
def test_argument_that_names_no_world_is_refused_in_words(text: str, problem: str) -> None:
    with pytest.raises(ArgumentTypeError, match=problem):
        read(text)
