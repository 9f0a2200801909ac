"""Each command that docs/reference/cli.md begins with works as it stands there.

Those that start something for long, or ask AWS for more than a stack, are read by the parser alone:
their own tests run them. Those about tables run in test_table.py and test_lineage.py, and what is
clicked in page/test_actions.py.
"""

import re
import shlex
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner

from docs import commands_page
from longhaul.cli.cli import app
from longhaul.cli.errors import ExitStatus
from longhaul.config.sources import version
from longhaul.core.descent import Lineage
from longhaul.core.lease import job_key
from longhaul.core.request import read_request
from longhaul.core.verdict import OutcomeClass
from tests.builders import BUCKET, there
from tests.cli.conftest import World, ran
from tests.cli.page.scenes import member_id, three_stages, tree
from tests.cli.test_logs import GROUP, began, runner_line
from tests.layers import ROOT

PAGE = (ROOT / "docs" / "reference" / "cli.md").read_text().partition("## Where a command goes")[0]
LINES = re.findall(r"^\| (?!to )[^|`]+ \| `longhaul ([^`]+)` \|$", PAGE, re.MULTILINE)
# By the first word: what runs for minutes or until Ctrl-C, makes a project, or needs an account.
ELSEWHERE = {
    *("demo", "up", "console", "test", "init", "new"),
    *("check", "deploy", "verify", "destroy", "secret"),
}
CLICKS = re.findall(r"^\| (?!to )[^|`]+ \| (\*\*.*) \|$", PAGE, re.MULTILINE)
ROOT_JOB = "flights-2013"
JOBS, BEGUN = 6, 4  # of the tree, and how many of them were claimed
DONE, DEAD, CANCELLED, WAITS = (f"{ROOT_JOB}-0{month}" for month in (1, 2, 3, 4))


def words(line: str) -> list[str]:
    return shlex.split(line.replace("longhaul-data", BUCKET))


@pytest.fixture
def used(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A stack in which the page's jobs have run."""
    monkeypatch.chdir(tmp_path)
    three_stages(world)
    request = f'{{"job": "flights_clean", "output": "s3://{BUCKET}/clean/"}}\n'
    Path("requests.jsonl").write_text(request)
    world.aws.ecs.create_cluster(clusterName="Longhaul")
    for job_id, outcome in ((DONE, OutcomeClass.SUCCEEDED), (DEAD, OutcomeClass.PERMANENT)):
        lease = began(world, job_id, task=job_id)
        world.aws.logs.write(GROUP, f"job/job/{job_id}", runner_line(lease, "job began"))
        world.end(lease, outcome)
    world.claim(CANCELLED, label="2026-10-07", tags={"team": "web"})
    world.bury(DEAD, "timed_out")
    world.end(world.claim(WAITS), OutcomeClass.FAILED)
    tree(world, JOBS, BEGUN, name=ROOT_JOB)
    return world


def test_the_page_has_the_thirty_things_that_people_do() -> None:
    assert len(LINES) >= 30
    assert len(LINES) == PAGE.count("`longhaul ") == len({*LINES})


@pytest.mark.parametrize("line", [each for each in LINES if each.split()[0] in ELSEWHERE])
def test_a_command_of_the_page_is_one_of_the_command_line(line: str) -> None:
    command: Any = typer.main.get_command(app)
    given = words(line)
    context = typer.Context(command)
    while isinstance(command, typer.core.TyperGroup):
        _, command, given = command.resolve_command(context, given)
    command.make_context("longhaul", given, parent=context, resilient_parsing=False)


@pytest.mark.parametrize(
    "line", [each for each in LINES if each.split()[0] not in {*ELSEWHERE, "table", "lineage"}]
)
def test_a_command_of_the_page_runs(used: World, line: str) -> None:
    if "--wait" in line or line.startswith("backfill"):
        used.clock.meanwhile.extend([lambda: _run_what_was_sent(used)] * 40)
    if line == "stage drain":
        used.clock.meanwhile.append(lambda: _end_what_runs(used))
    if "drop --older-than" in line:
        used.clock.advance(timedelta(days=8).total_seconds())
    if line.endswith("--tree"):
        _end_the_tree(used)
    assert used.run(*words(line)).output.strip()


def _run_what_was_sent(world: World) -> None:
    for message in world.queued():
        request = read_request(message["Body"], world.settings.paths)
        assert request.job_id is not None
        lease = world.claim(request.job_id, fingerprint=request.fingerprint())
        world.end(lease, OutcomeClass.SUCCEEDED)


def _end_the_tree(world: World) -> None:
    root = there(world.parts.leases.load(job_key("main", ROOT_JOB)))
    lineage = Lineage(root=root.key, parent=root.key, run=root.run)
    for n in range(BEGUN, JOBS):
        member = world.claim(member_id(root, n), world.settings.stages[1], lineage=lineage)
        world.end(member, OutcomeClass.SUCCEEDED)


def _end_what_runs(world: World) -> None:
    lease = there(world.parts.leases.load(f"main#{CANCELLED}"))
    world.end(lease, OutcomeClass.SUCCEEDED)


# The whole page is what the help of the commands says, and names no other.


REFERENCE = commands_page.PAGE.read_text("utf-8")
WHERE = {"--profile", "--region", "--stack"}
COMMON = {"--env", "--help", "--install-completion", "--project", "--show-completion", "--version"}


def commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The commands by their words."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name), command


COMMANDS = dict(commands(typer.main.get_command(app)))


def options(command: Any) -> set[str]:
    return {
        option
        for parameter in command.params
        for option in (*parameter.opts, *parameter.secondary_opts)
        if option.startswith("--")
    }


def test_the_page_is_what_the_commands_say() -> None:
    assert commands_page.page(REFERENCE) == REFERENCE, "run `python -m docs.commands_page`"


def test_every_command_and_option_of_the_page_is_real() -> None:
    known = {option for command in COMMANDS.values() for option in options(command)} | COMMON
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", REFERENCE)) <= known
    for words in re.findall(r"longhaul ([a-z][a-z-]+(?: [a-z]+)?)", REFERENCE):
        first, _, second = words.partition(" ")
        assert any(
            command[0] == first and (len(command) == 1 or command[1] == second)
            for command in COMMANDS
        ), words


def test_every_exit_code_is_on_the_page_and_in_the_help() -> None:
    shown = " ".join(ran("--help").output.split())
    assert {*map(int, re.findall(r"^\| (\d+) \|", REFERENCE, re.MULTILINE))} == {*ExitStatus}
    assert all(re.search(rf"[ :·] ?{code.value} [a-zA-Z]", shown) for code in ExitStatus), shown


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_has_help_with_an_example_of_itself(command: tuple[str, ...]) -> None:
    example = " ".join(ran(*command, "--help").output.split()).partition("Example: ")[2]
    assert f"longhaul {' '.join(command)}" in example
    of_a_folder = {"up", "demo", "init", "new", "test", "synth"}
    assert (options(COMMANDS[command]) >= WHERE) == (
        command[0] not in of_a_folder | {"bootstrap", "diff", "deploy", "destroy"}
    )


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shell_completion_offers_the_commands(shell: str) -> None:
    done = CliRunner().invoke(
        app,
        env={
            "_LONGHAUL_COMPLETE": f"complete_{shell}",
            "COMP_WORDS": "longhaul d",
            "COMP_CWORD": "1",
            "_TYPER_COMPLETE_ARGS": "longhaul d",
            "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        },
        prog_name="longhaul",
    )
    assert {"deploy", "demo", "dlq"} <= set(re.findall(r"[a-z]+", done.stdout))
    assert "submit" not in done.stdout.split()


def test_the_version_is_shown() -> None:
    ran("--version", prints=f"longhaul {version()}\n")


def test_no_command_and_an_unknown_command_are_wrong_usage() -> None:
    ran(code=ExitStatus.USAGE)
    ran("statsu", code=ExitStatus.USAGE, says="No such command")


@pytest.mark.parametrize(
    "command",
    [("status", "--limit"), ("dlq", "list", "--limit"), ("cost", "--limit")],
)
def test_a_huge_count_is_wrong_usage_and_no_traceback(
    world: World, command: tuple[str, ...]
) -> None:
    world.run(*command, "9" * 30, code=ExitStatus.USAGE)
