import ast
import inspect
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import NoReturn, get_type_hints

import pytest

from longhaul.cli import entry
from longhaul.cli.errors import ExitStatus
from longhaul.cli.terminal.declaring import WHERE, work_of
from tests.layers import ROOT
from tests.patience import DEADLINE_S


def declared() -> Iterator[Callable[..., None]]:
    """The functions of `commands` that declare a command."""
    for file in sorted((ROOT / "longhaul" / "cli" / "commands").glob("[a-z]*.py")):
        module = import_module(f"longhaul.cli.commands.{file.stem}")
        for found in vars(module).values():
            if inspect.isfunction(found) and found.__module__ == module.__name__:
                yield found


def test_an_interrupt_while_the_commands_are_loaded_exits_130(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Interrupted(ModuleType):
        def __getattr__(self, name: str) -> NoReturn:
            raise KeyboardInterrupt

    monkeypatch.setitem(sys.modules, "longhaul.cli.cli", Interrupted("longhaul.cli.cli"))
    with pytest.raises(SystemExit) as ended:
        entry.main()
    assert ended.value.code == ExitStatus.INTERRUPTED


@pytest.mark.parametrize(
    "module", ["longhaul.cli.cli", "longhaul.cli.commands.status", "longhaul.cli.work.status"]
)
def test_a_module_that_makes_another_error_of_an_interrupt_is_ended_too(module: str) -> None:
    code = (
        "import os, signal, sys; from types import ModuleType; from longhaul.cli import entry\n"
        # A shell that starts the tests in the background lets them ignore it.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "class Loading(ModuleType):\n"
        "    def __getattr__(self, name):\n"
        "        try: os.kill(os.getpid(), signal.SIGINT)\n"
        "        except KeyboardInterrupt: raise ValueError\n"
        f"sys.modules[{module!r}] = Loading({module!r})\n"
        "sys.argv = ['longhaul', 'status']\n"
        "entry.main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        capture_output=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert (done.returncode, done.stderr) == (ExitStatus.INTERRUPTED, b"")


def test_an_interrupt_while_typer_builds_the_commands_exits_130(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted() -> NoReturn:
        raise KeyboardInterrupt

    monkeypatch.setattr("longhaul.cli.cli.app", interrupted)
    with pytest.raises(SystemExit) as ended:
        entry.main()
    assert ended.value.code == ExitStatus.INTERRUPTED


@pytest.mark.parametrize("closed", ["stdout", "stderr"])
def test_a_closed_stream_is_written_to_in_vain(
    monkeypatch: pytest.MonkeyPatch, closed: str
) -> None:
    monkeypatch.setattr(sys, closed, None)
    monkeypatch.setattr("longhaul.cli.cli.app", lambda: getattr(sys, closed).write("x"))
    entry.main()
    getattr(sys, closed).close()


def test_a_character_that_the_terminal_lacks_is_escaped() -> None:
    code = "from longhaul.cli import entry; entry.main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "--help"],
        cwd=ROOT,
        env=os.environ | {"PYTHONIOENCODING": "ascii"},
        capture_output=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"\\xb7" in done.stdout


def modules_of(*words: str, ends: int = 0, **variables: str) -> set[str]:
    """The modules that a command has imported at its end, in a process of its own."""
    program = (
        f"import sys; sys.argv[1:] = {list(words)!r}; sys.argv[0] = 'longhaul'\n"
        "from longhaul.cli.entry import main\n"
        "try:\n    main()\n"
        "finally:\n    print('\\nmodules:', *sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        env=os.environ | variables,
        check=False,
    )
    assert done.returncode == ends, done.stderr
    return {*done.stdout.rpartition("modules:")[2].split()}


# All that is typed before a command runs, and how many modules it may import. Typer itself, with
# the help that it draws, has 400.
BUDGETS = {
    ("--version",): 230,
    ("--help",): 500,
    ("status", "--help"): 465,
    ("deploy", "--help"): 465,
    ("table", "query", "--help"): 465,
}


@pytest.mark.parametrize(
    ("words", "most"), BUDGETS.items(), ids=[" ".join(each) for each in BUDGETS]
)
def test_help_imports_no_more_than_it_shows(words: tuple[str, ...], most: int) -> None:
    """By the number of modules: a budget in seconds would be the machine's."""
    modules = modules_of(*words)
    assert not working(modules)
    assert len(modules) <= most


def test_a_wrong_option_and_a_completion_import_no_work() -> None:
    assert not working(modules_of("status", "--nonsense", ends=ExitStatus.USAGE))
    completing = {"COMP_WORDS": "longhaul sta", "COMP_CWORD": "1"}
    assert not working(modules_of(_LONGHAUL_COMPLETE="complete_bash", **completing))


def working(modules: set[str]) -> set[str]:
    """What of these only the work of a command needs."""
    slow = {"boto3", "botocore", "moto", "pyspark", "pandas", "aws_cdk", "longhaul.settings"}
    work = {each for each in modules if each.startswith(("longhaul.cli.work", "longhaul.wiring"))}
    return modules & slow | work


# The modules of Longhaul that a command imports before it makes its first call, with those of the
# target. What it imports later it has a reason for.
OF_WORK = {
    "backfill": 135,
    "cancel": 95,
    "console": 88,
    "cost": 108,
    "demo": 92,
    "deploy": 119,
    "dlq": 94,
    "doctor": 123,
    "drain": 97,
    "history": 97,
    "init": 94,
    "lineage": 99,
    "logs": 97,
    "new_job": 92,
    "pause": 88,
    "rehearse": 150,
    "rerun": 124,
    "retry": 97,
    "run_tests": 99,
    "secret": 92,
    "status": 108,
    "submit": 127,
    "table": 96,
    "up": 108,
    "verify": 142,
}


def test_each_command_has_a_budget() -> None:
    folder = ROOT / "longhaul" / "cli"
    for names in (folder / "work", folder / "commands"):
        assert {each.stem for each in names.glob("[a-z]*.py")} == OF_WORK.keys()


@pytest.mark.parametrize(("command", "most"), OF_WORK.items(), ids=OF_WORK)
def test_the_work_of_a_command_imports_what_it_needs(command: str, most: int) -> None:
    found = at_import(f"longhaul.cli.work.{command}") | at_import("longhaul.cli.target")
    assert not {each.partition(".")[0] for each in found} & {"moto", "pyspark", "duckdb", "aws_cdk"}
    others = {each for each in found if each.startswith("longhaul.cli.work.")}
    allowed = {"init": {"new_job"}, "rehearse": {"deploy"}}.get(command, set())
    assert {each.split(".")[3] for each in others} <= {command} | allowed
    assert len({each for each in found if each.startswith("longhaul.")}) <= most


@cache
def at_import(name: str) -> frozenset[str]:
    """The modules that the import of one runs, by the code; of other packages only the first."""
    found, left = set[str](), [name]
    while left:
        module = left.pop()
        if module in found:
            continue
        found.add(module)
        if module.startswith("longhaul."):
            left += [module.rpartition(".")[0], *imported_first(module)]
    return frozenset(found)


@cache
def imported_first(module: str) -> tuple[str, ...]:
    """What a module imports when it is imported itself, not later, nor for its annotations."""
    path = ROOT.joinpath(*module.split("."))
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    names: list[str] = []
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.Import):
            names += [each.name for each in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            inside = [f"{node.module}.{each.name}" for each in node.names]
            names += [each for each in inside if is_module(each)] or [node.module]
    return tuple(names)


def is_module(name: str) -> bool:
    path = ROOT.joinpath(*name.split("."))
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


@pytest.mark.parametrize("command", list(declared()), ids=lambda each: each.__name__)
def test_what_is_declared_is_what_the_work_takes(command: Callable[..., None]) -> None:
    """The names and types of options: the work is called by them, which no type checker sees."""
    taken, given = get_type_hints(work_of(command)), get_type_hints(command)
    if taken.pop("target", None):
        given = {name: hint for name, hint in given.items() if name not in WHERE}
    assert taken == given
