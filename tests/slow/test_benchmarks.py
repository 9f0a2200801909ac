"""The output of the benchmarks, without a check of the figures.

`spark_start` runs what `spark_throughput` runs, and takes minutes: the first run of each JVM.
"""

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
        ["-m", "benchmarks.spark_throughput", "--runs", "1", "--mb", "2"],
        ["-m", "benchmarks.parts", "--runs", "1", "--mb", "2", "--parts", "2"],
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
