"""The end of a log of `.ci/run` says what passed, on which commit and as whom."""

import os
import subprocess
from pathlib import Path

CI = Path(__file__).parents[2] / ".ci" / "run"
MAKEFILE = """
clean:
\t@echo cleaned
test:
\t@echo '....  [100%]' && echo '===== 7290 passed, 3 skipped in 320.11s (0:05:20) ====='
test-slow:
\t@echo mutants=117 killed=117 && echo '===== {slow} in 1428.02s (0:23:48) =====' && {then}
"""


def closing(folder: Path, slow: str, then: str) -> tuple[int, list[str]]:
    """What it prints after all parts, whose real ones take an hour. It runs as no root."""
    commands = folder / ".venv" / "bin", folder / "bin"
    scripts = {
        commands[0] / "python": "echo worlds=150 violations=0 worlds_per_s=20",
        commands[1] / "id": "case $1 in -u) echo 1000 ;; *) echo somebody ;; esac",
        commands[1] / "git": "echo 0123abc",
        commands[1] / "date": "echo 261126",
        folder / ".ci" / "run": CI.read_text(),
    }
    for path, script in scripts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(script if path.name == "run" else f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
    (folder / "Makefile").write_text(MAKEFILE.format(slow=slow, then=then))
    done = subprocess.run(
        [folder / ".ci" / "run"],
        env=os.environ | {"PATH": f"{commands[1]}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout.rpartition("\n\n")[2].splitlines()


def test_the_end_of_the_log_repeats_the_last_lines_of_all_that_passed(tmp_path: Path) -> None:
    assert closing(tmp_path, "745 passed", "true") == (
        0,
        [
            "$ make test",
            "===== 7290 passed, 3 skipped in 320.11s (0:05:20) =====",
            "$ make test-slow",
            "mutants=117 killed=117",
            "===== 745 passed in 1428.02s (0:23:48) =====",
            "$ soak 150 worlds from seed 261126000",
            "worlds=150 violations=0 worlds_per_s=20",
            "passed: commit 0123abc as somebody, 150 drawn worlds from seed 261126000",
        ],
    )


def test_a_part_that_fails_is_the_last_that_the_log_names(tmp_path: Path) -> None:
    code, lines = closing(tmp_path, "1 failed, 744 passed", "exit 1")
    assert code != 0
    assert lines[-2:] == [
        "===== 1 failed, 744 passed in 1428.02s (0:23:48) =====",
        "failed: commit 0123abc as somebody, 150 drawn worlds from seed 261126000",
    ]
