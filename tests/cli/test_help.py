"""docs/reference/cli.md is what the help of the commands says, and names no other."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner

from docs import commands_page
from longhaul.cli.cli import app
from longhaul.cli.errors import ExitStatus
from longhaul.config.sources import version
from tests.cli.conftest import World, ran

PAGE = commands_page.PAGE.read_text("utf-8")
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
    assert commands_page.page(PAGE) == PAGE, "run `python -m docs.commands_page`"


def test_every_command_and_option_of_the_page_is_real() -> None:
    known = {option for command in COMMANDS.values() for option in options(command)} | COMMON
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", PAGE)) <= known
    for words in re.findall(r"longhaul ([a-z][a-z-]+(?: [a-z]+)?)", PAGE):
        first, _, second = words.partition(" ")
        assert any(
            command[0] == first and (len(command) == 1 or command[1] == second)
            for command in COMMANDS
        ), words


def test_every_exit_code_is_on_the_page_and_in_the_help() -> None:
    shown = " ".join(ran("--help").output.split())
    assert {*map(int, re.findall(r"^\| (\d+) \|", PAGE, re.MULTILINE))} == {*ExitStatus}
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
