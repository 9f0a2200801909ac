"""The output of the benchmarks, without a check of the figures."""

import json
import subprocess
import sys
from typing import Any

import pytest

from tests.layers import ROOT

pytestmark = pytest.mark.slow

LIMIT_S = 900


@pytest.mark.parametrize(
    "arguments",
    [
        ["-m", "benchmarks.spark_start", "--runs", "1"],
        ["-m", "benchmarks.spark_throughput", "--runs", "1", "--mb", "2"],
        ["-m", "benchmarks.overlap", "--runs", "1", "--mb", "2", "--inputs", "2"],
        ["-m", "benchmarks.parts", "--runs", "1", "--mb", "2", "--parts", "2"],
        ["-m", "benchmarks.handlers", "--runs", "1"],
        ["-m", "benchmarks.plain_python", "--runs", "1", "--files", "1", "--mb", "1"],
    ],
)
def test_benchmark_prints_one_object_with_its_ratios_only(arguments: list[str]) -> None:
    found = printed_by(arguments)
    assert found["runs"] == 1
    assert 0 < found["ratio_min"] <= found["ratio_median"] <= found["ratio_max"]


def test_longhaul_and_a_loop_make_another_attempt_after_a_kill_and_after_a_failure() -> None:
    found = printed_by(["-m", "benchmarks.peers", "--ages", "5"])

    assert found.keys() == {"Longhaul", "a loop"}
    for seconds in found.values():
        assert seconds.keys() == {"killed at 5 s", "failed"}


def test_executors_do_the_tasks_of_one_machine_and_move_part_of_them_to_each_other() -> None:
    found = printed_by(["-m", "benchmarks.executors", "--mb", "1", "--files", "4"])

    assert [each["executors"] for each in found.values()] == [1, 2, 4]
    assert len({each["bytes_read"] for each in found.values()}) == 1
    moved = [each["bytes_from_other_executors"] for each in found.values()]
    assert moved[0] == 0 < min(moved[1:])


def test_all_jobs_of_a_stack_begin_and_have_beats() -> None:
    found = printed_by(["-m", "benchmarks.embedded_scale", "--jobs", "2", "--for-s", "40"])

    assert found["beats"] > 0


def test_each_step_of_a_start_has_its_time() -> None:
    found = printed_by(["-m", "benchmarks.start_phases", "--runs", "1"])

    assert found["runs"] == 1
    assert {"JVM answers", "session", "staged", "published"} <= found["seconds"].keys()


def test_a_checkout_simulates_the_same_worlds_as_itself() -> None:
    found = printed_by(["-m", "benchmarks.simulation", "--before", "HEAD", "--worlds", "1"])

    assert {name: each["different_worlds"] for name, each in found.items()} == {
        "drawn": 0,
        "pairs": 0,
    }


def test_a_bug_is_hunted_in_the_drawn_worlds_of_both_checkouts() -> None:
    found = printed_by(
        ["-m", "benchmarks.seeded_bugs", "--before", "HEAD", "--bugs", "1", "--most-s", "1"]
    )

    assert found["bugs"] == 1
    assert min(found[side]["worlds"] for side in ("before", "now")) > 0


def printed_by(arguments: list[str]) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, *arguments, "--json"],
        capture_output=True,
        cwd=ROOT,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()
    found: dict[str, Any] = json.loads(line)
    return found
