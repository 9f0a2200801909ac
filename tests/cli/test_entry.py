import os
import subprocess
import sys
from types import ModuleType
from typing import NoReturn

import pytest

from longhaul.cli import entry
from longhaul.cli.errors import ExitStatus
from tests.layers import ROOT
from tests.patience import DEADLINE_S


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


@pytest.mark.parametrize("module", ["longhaul.cli.cli", "longhaul.cli.commands.status"])
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


def modules_of(*words: str) -> set[str]:
    """The modules that a command has imported at its end, in a process of its own."""
    program = (
        f"import sys; sys.argv[1:] = {list(words)!r}\n"
        "from longhaul.cli.entry import main\n"
        "try:\n    main()\n"
        "finally:\n    print('modules:', *sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return {*done.stdout.rpartition("modules:")[2].split()}


@pytest.mark.parametrize(
    ("words", "most"),
    [(("--version",), 450), (("status", "--help"), 930)],
    ids=["version", "status"],
)
def test_a_command_imports_what_it_needs_and_no_other_command(
    words: tuple[str, ...], most: int
) -> None:
    """By the number of modules: a budget in seconds would be the machine's."""
    modules = modules_of(*words)
    commands = {each.split(".")[3] for each in modules if each.startswith("longhaul.cli.commands.")}
    assert commands <= {*words}
    assert not modules & {"moto", "pyspark", "duckdb", "pyarrow", "jinja2", "aws_cdk", "pytest"}
    assert len(modules) <= most
