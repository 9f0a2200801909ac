"""`longhaul verify` against the strict fakes: what it sends, sees, says and clears away."""

import json

import pytest

from longhaul.cli.acceptance.cases import CASES
from longhaul.core.lease import job_key
from longhaul.wiring import Wiring
from tests.cli.conftest import World


@pytest.fixture
def probed(bare: World) -> World:
    """A stack with the probe in its catalogue."""
    bare.settings = bare.settings.model_copy(update={"jobs": ("probe", "sql")})
    bare.parts = Wiring(bare.settings, bare.aws.client)
    bare.deploy()
    return bare


def by_name(world: World) -> dict[str, str]:
    """The bodies that were sent, by case."""
    bodies = [message["Body"] for message in world.queued()]
    names = [case.name for case in CASES]
    return {
        name: text for text in bodies for name in names if json.loads(text)["job_id"].endswith(name)
    }


def test_a_stack_that_cannot_run_the_probe_is_refused_with_the_way_out(world: World) -> None:
    done = world.run("verify")
    assert done.exit_code == 1
    assert "no stage takes probes" in done.stderr
    assert not world.queued()


def test_nothing_is_sent_while_nothing_starts(probed: World) -> None:
    probed.aws.lambda_.mappings[0]["State"] = "Disabled"
    done = probed.run("verify")
    assert (done.exit_code, "no job starts" in done.stderr) == (1, True)
    probed.aws.lambda_.mappings[0]["State"] = "Enabled"
    probed.run("stage", "pause", "main")
    done = probed.run("verify")
    assert (done.exit_code, "no job starts" in done.stderr) == (1, True)
    assert not probed.queued()


def is_cancelled(world: World) -> bool:
    """Whether each job that was sent is marked: a message that comes later starts nothing."""
    sent = by_name(world)
    assert sent
    marks = [
        world.parts.leases.load(job_key("main", json.loads(text)["job_id"]))
        for name, text in sent.items()
        if name != "invalid"
    ]
    return all(mark is not None and mark.cancel_requested_at is not None for mark in marks)


def test_jobs_that_never_start_are_failures_and_are_cancelled(probed: World) -> None:
    done = probed.run("verify", "--json")
    assert done.exit_code == 1, done.stderr
    found = {each["case"]: each for each in map(json.loads, done.stdout.splitlines())}
    assert {each["verdict"] for each in found.values()} == {"failed"}
    assert list(found) == [case.name for case in CASES]
    assert found["success"]["happened"] == "not over in time: no job"
    assert is_cancelled(probed)


def test_an_interrupt_cancels_what_runs(probed: World) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    probed.clock.meanwhile.append(interrupt)
    assert probed.run("verify").exit_code == 130
    assert is_cancelled(probed)
