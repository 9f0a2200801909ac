"""`longhaul verify` against the strict fakes: what it sends, sees, says and clears away."""

import json
from pathlib import Path

import pytest

from longhaul.cli.acceptance.cases import CASES
from longhaul.domain.lease import job_key
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
    assert "does not allow the probe: job: " in done.stderr
    assert not world.queued()


def test_nothing_is_sent_while_the_mapping_is_off(probed: World, tmp_path: Path) -> None:
    probed.aws.lambda_.mappings[0]["State"] = "Disabled"
    done = probed.run("verify", "-o", str(tmp_path / "x.html"))
    assert (done.exit_code, "no job starts" in done.stderr) == (1, True)
    assert not probed.queued()


def test_nothing_is_sent_while_a_stage_is_paused(probed: World, tmp_path: Path) -> None:
    probed.run("stage", "pause", "main")
    done = probed.run("verify", "-o", str(tmp_path / "x.html"))
    assert (done.exit_code, "no job starts" in done.stderr) == (1, True)
    assert not probed.queued()


def test_jobs_that_never_start_are_failures_are_cancelled_and_the_page_says_so(
    probed: World, tmp_path: Path
) -> None:
    page = tmp_path / "verify.html"
    done = probed.run("verify", "--json", "-o", str(page))
    assert done.exit_code == 1, done.stderr
    found = {each["case"]: each for each in map(json.loads, done.stdout.splitlines())}
    assert {name: each["verdict"] for name, each in found.items()} == {
        **dict.fromkeys((case.name for case in CASES), "failed"),
        "nothing left": "failed",
    }
    assert found["success"]["happened"] == "not over in time: no job"
    assert "not over in time: no job" in page.read_text()
    # A message that comes later starts nothing any more.
    for name, text in by_name(probed).items():
        mark = probed.parts.leases.load(job_key("main", json.loads(text)["job_id"]))
        assert name == "invalid" or (mark is not None and mark.cancel_requested_at is not None)


def test_an_interrupt_cancels_what_runs(probed: World, tmp_path: Path) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    probed.clock.meanwhile.append(interrupt)
    done = probed.run("verify", "-o", str(tmp_path / "x.html"))
    assert done.exit_code == 130
    sent = by_name(probed)
    assert sent
    for name, text in sent.items():
        mark = probed.parts.leases.load(job_key("main", json.loads(text)["job_id"]))
        assert name == "invalid" or (mark is not None and mark.cancel_requested_at is not None)
