import os
import subprocess
import sys
from types import ModuleType
from typing import NoReturn

import pytest

from console import entry
from console.errors import ExitCode
from local.synth import REPOSITORY


def test_an_interrupt_while_the_commands_are_loaded_is_one_like_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted(ModuleType):
        def __getattr__(self, name: str) -> NoReturn:
            raise KeyboardInterrupt

    monkeypatch.setitem(sys.modules, "console.cli", Interrupted("console.cli"))
    with pytest.raises(SystemExit) as ended:
        entry.main()
    assert ended.value.code == ExitCode.INTERRUPTED


def test_a_character_that_the_terminal_lacks_ends_nothing() -> None:
    code = "from console import entry; entry.main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "--help"],
        cwd=REPOSITORY,
        env=os.environ | {"PYTHONIOENCODING": "ascii"},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"\\xb7" in done.stdout
