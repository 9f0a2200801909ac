"""The output of the benchmarks, without a check of the figures."""

import json
import subprocess
import sys

import pytest

from tests.layers import ROOT

pytestmark = pytest.mark.slow

LIMIT_S = 900


@pytest.mark.parametrize(
    "arguments",
    [
        ["-m", "benchmarks.spark_start", "--runs", "1"],
        ["-m", "benchmarks.spark_throughput", "--runs", "1", "--mb", "2"],
        ["-m", "benchmarks.handlers", "--runs", "1"],
    ],
)
def test_benchmark_prints_one_object_with_its_ratios_only(arguments: list[str]) -> None:
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
    found = json.loads(line)
    assert found["runs"] == 1
    assert 0 < found["ratio_min"] <= found["ratio_median"] <= found["ratio_max"]
