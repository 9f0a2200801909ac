"""`longhaul check` of a stack that is not deployed yet; test_doctor.py has it of one that is."""

import pytest

from longhaul.cli.checks.finding import ok, problem
from tests.cli.conftest import World


@pytest.mark.usefixtures("no_project")
def test_before_there_is_a_stack_its_deployment_is_checked(
    bare: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [ok("bootstrap: version 28"), problem("region: none is chosen", "choose one")]
    monkeypatch.setattr("longhaul.cli.preflight.findings", lambda *_: iter(found))
    done = bare.run("check")
    assert done.exit_code == 1
    assert "XX  region: none is chosen" in done.stdout
    assert "--  stack: Longhaul is not deployed yet" in done.stdout


def test_a_stack_that_is_named_and_is_not_there_is_no_deployment_to_check(bare: World) -> None:
    assert bare.run("check", "--stack", "Longhual").exit_code == 3
