"""Which files of tests run again after a change (`tests/affected.py`)."""

import subprocess
import sys
import tempfile
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

from tests import conftest
from tests.affected import Checkout
from tests.layers import ROOT

SIZES = """
from shop import sizes


def test_sizes():
    assert sizes.LIMIT < 9
"""
FILES = {
    "shop/__init__.py": "",
    "shop/limits.py": "LIMIT = 3\n",
    "shop/sizes.py": "from shop.limits import LIMIT\n",
    "shop/other.py": "",
    "pages/limits.md": "3",
    "limits.json": "3",
    "tests/conftest.py": "import tests.shared\n",
    # For all tests: it reads their code to place them on workers.
    "tests/shared.py": "TESTS = 'test_*.py'\n",
    "tests/test_sizes.py": SIZES,
    "tests/test_page.py": "PAGE = 'limits.md'\n\n\ndef test_page():\n    pass\n",
    "tests/test_alone.py": """
JOB = "s3://code/jobs/a.py"
RECORDED = "sqs/test_sqs.py::test_move"


def test_files_of_a_job():
    pass
""",
}
ALL = {"tests/test_alone.py", "tests/test_page.py", "tests/test_sizes.py"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    subprocess.run(["/usr/bin/env", "git", "init", "--quiet"], cwd=tmp_path, check=True)
    return tmp_path


@pytest.mark.parametrize(
    ("changed", "again"),
    [
        ("tests/test_alone.py", {"tests/test_alone.py", "tests/test_page.py"}),
        ("shop/sizes.py", {"tests/test_sizes.py", "tests/test_page.py"}),
        # A constant, which no test executes.
        ("shop/limits.py", {"tests/test_sizes.py", "tests/test_page.py"}),
        ("shop/__init__.py", {"tests/test_sizes.py", "tests/test_page.py"}),
        ("shop/other.py", {"tests/test_page.py"}),
        ("shop/new.py", {"tests/test_page.py"}),
        ("tests/shared.py", ALL),
        ("pages/limits.md", {"tests/test_page.py"}),
        ("limits.json", ALL),
    ],
)
def test_files_of_tests_run_again_after_a_change_of_what_they_lean_on(
    root: Path, changed: str, again: set[str]
) -> None:
    before = Checkout(root)
    (root / changed).write_text("# another\n")
    after = Checkout(root)

    assert {test for test in ALL if before.digest(test) != after.digest(test)} == again


def test_plugins_of_all_tests_are_declared_to_ruff() -> None:
    """`pytest_plugins` names them in texts, which its graph of imports does not follow."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["ruff"]
    declared = settings["analyze"]["include-dependencies"]["tests/conftest.py"]
    files = [Path(import_module(name).__file__ or "") for name in conftest.pytest_plugins]
    assert sorted(declared) == sorted(file.relative_to(ROOT).as_posix() for file in files)


def test_a_deleted_file_counts_as_a_change(root: Path) -> None:
    before = Checkout(root)
    (root / "limits.json").unlink()

    assert Checkout(root).digest("tests/test_alone.py") != before.digest("tests/test_alone.py")


def run(root: Path, *, workers: int = 0) -> tuple[int, str]:
    """Run the tests of a checkout, with the plugin."""
    path = f"{root}:{Path(__file__).parents[2]}"
    given = ["-q", "-n", f"{workers}", "-p", "tests.affected", "-p", "no:longhaul.testing"]
    done = subprocess.run(
        [sys.executable, "-P", "-m", "pytest", *given, "tests"],
        cwd=root,
        env={
            "PATH": "/usr/bin:/bin",
            "PYTHONPATH": path,
            "HOME": str(root),
            "TMPDIR": tempfile.gettempdir(),
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout


@pytest.fixture
def quiet_root(root: Path) -> Path:
    """A checkout in which a run of the tests changes nothing that counts."""
    (root / "limits.json").unlink()
    (root / ".gitignore").write_text("__pycache__\n.pytest_cache\n.ruff_cache\n")
    return root


def test_what_passed_is_left_out_and_what_failed_runs_again(quiet_root: Path) -> None:
    limits, broken = quiet_root / "shop" / "limits.py", quiet_root / "tests" / "test_broken.py"
    limits.write_text("LIMIT = 10\n")
    broken.write_text("import nowhere\n")
    first = run(quiet_root, workers=1)
    again = run(quiet_root, workers=1)
    limits.write_text("LIMIT = 4\n")
    broken.unlink()
    mended = run(quiet_root)
    last = run(quiet_root)

    assert first[0] == 1
    assert "1 failed, 2 passed, 1 error" in first[1]
    assert again[0] == 1
    assert "1 failed, 1 error" in again[1]
    assert "2 of 4 files of tests were left out" in again[1]
    assert mended[0] == 0
    assert last[0] == 0
    assert "3 of 3 files of tests were left out" in last[1]


STRICT = """
import pytest


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session):
    session.exitstatus = pytest.ExitCode.TESTS_FAILED
"""


def test_nothing_passed_in_a_run_that_fails_without_a_failed_test(quiet_root: Path) -> None:
    (quiet_root / "tests" / "conftest.py").write_text(STRICT)

    code, said = run(quiet_root)

    assert code == 1
    assert "3 passed" in said
    assert not (quiet_root / ".pytest_cache/v/longhaul/passed").exists()
