"""`longhaul check` on what `longhaul up` deploys.

A module of its own: the stack of the other tests has the demo's trigger besides, and a process has
one embedded AWS at a time.
"""

import json

import pytest

from longhaul.cli.local.aws import embedded_aws
from longhaul.cli.synth import synth
from tests.e2e.conftest import Stack


@pytest.mark.slow  # synthesizes the app once more
def test_check_finds_nothing_wrong_with_what_up_deploys(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    assembly = synth(tmp_path_factory.mktemp("up") / "cdk.out")
    with embedded_aws(tmp_path_factory.mktemp("embedded-aws")) as aws:
        stack = Stack(aws, aws.deploy(assembly, "Longhaul"))
        code, out, err = stack.longhaul("check", "--json")
    levels = [json.loads(line)["level"] for line in out.splitlines()]
    assert (code, "problem" in levels) == (0, False), out + err
